"""Colours of classes on maps: as many as there are classes, none of them orange or red, which mean something else."""

import colorsys

import numpy as np

ATTRIBUTE = "#F57C00"  # orange: examples that have an attribute
ARROW = "#D7191C"  # red: from examples to the cluster that they are closest to

# Tol's muted scheme without its rose, and two blues: ten colours that most colour-blind people tell apart.
FEW = (
    "#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#882255", "#AA4499", "#0072B2", "#8A8A8A",
)  # fmt: skip
GOLDEN = 0.618034  # steps of it around the circle of hues keep neighbours in the list apart
HUES = (0.14, 0.96)  # without red and orange


def class_colours(count: int) -> np.ndarray:
    """Colours (count, 3) in 0..1. The first ten are chosen by hand; of more classes, all are spread over the hues."""
    if count <= len(FEW):
        return np.array([hex_colour(colour) for colour in FEW[:count]])
    low, high = HUES
    hues = low + (high - low) * (np.arange(count) * GOLDEN % 1)
    levels = ((0.36, 0.75), (0.55, 0.6), (0.72, 0.55))  # lightness and saturation, in turn
    return np.array([colorsys.hls_to_rgb(hue, *levels[i % len(levels)]) for i, hue in enumerate(hues)])


def hex_colour(colour: str) -> np.ndarray:
    """ "#rrggbb" as (3,) in 0..1."""
    return np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
