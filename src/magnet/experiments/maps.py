"""The paper's t-SNE maps (its figures 2 and 5, and those of the appendix), for every method."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from magnet.data import Dataset
from magnet.data.listings import Attributes
from magnet.errors import UserError
from magnet.experiments.attributes import attributes_of
from magnet.experiments.cache import of_test_part
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import DIVERGED, Outcome, Table, pretty
from magnet.index import ClusterIndex
from magnet.neighbours import nearest
from magnet.report.layout import lay_out
from magnet.report.maps import (
    THUMBNAIL,
    Callout,
    DensityMap,
    draw_attribute_maps,
    draw_density_maps,
    draw_image_map,
    mosaic,
    place,
    thumbnails,
)
from magnet.runs.run import Run

MOST = 5000  # test examples on a map
CLOSEST = 4  # examples shown of a cluster
CALLOUT_PIXELS = 72
CLUSTERS = (
    "Red arrows: the two clusters furthest apart of each of the four classes whose clusters lie furthest apart, "
    "or the largest clusters where classes have one each, and the four test examples closest to them."
)
ATTRIBUTES = (
    "Attributes: of those that at most half of the examples have, the one that varies most within classes "
    "(between classes, where whole classes were annotated), and the next that is correlated with it by less than 0.5."
)


def run(lab: Lab) -> Outcome:
    """Lay out the test examples under the first seed's run of each method, and draw all maps."""
    lab.expect(len(lab.methods) * (lab.tries + 1))
    rows = draw_rows(lab.data.indices("test"), MOST)
    maps: dict[str, DensityMap] = {}
    values: dict[str, Any] = {}
    for method in lab.methods:
        trained = lab.train(lab.best(method))
        if trained is None:
            values[method] = {DIVERGED: 1}
            continue
        with lab.console.status(f"laying out the map of {method}"):
            maps[method], values[method] = _map(trained, rows, pretty(method))
    lab.out.mkdir(parents=True, exist_ok=True)
    title = f"{lab.data.name}: {len(rows):,} test examples after training with each method (t-SNE)"
    figures: list[Path] = []
    notes: list[str] = []
    if maps:
        figures = [draw_density_maps(list(maps.values()), lab.data.classes, lab.out / "maps.png", title=title)]
        for more, some in (_attribute_maps(lab, rows, list(maps.values())), _image_maps(lab, rows, maps)):
            figures, notes = figures + more, notes + some
    table = Table(
        f"{lab.data.name}: how often the nearest test example is of the same class, in %",
        ["method", "clusters", "in the representation", "on the map"],
        [_row(method, found) for method, found in values.items()],
        " ".join(["One run of each method, with the first seed.", CLUSTERS, *notes]),
    )
    return Outcome([table], figures, {"examples": len(rows), "methods": values})


def _row(method: str, found: dict[str, Any]) -> list[str]:
    if DIVERGED in found:
        return [pretty(method), DIVERGED, "", ""]
    shares = (found["same_class_in_space"], found["same_class_on_map"])
    return [pretty(method), str(found["clusters"]), *(f"{100 * value:.1f}" for value in shares)]


def draw_rows(rows: Tensor, most: int) -> Tensor:
    """A random sample of rows, ascending, of at most the given number; the same for every method."""
    if len(rows) <= most:
        return rows
    chosen = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))[:most]
    return rows[chosen].sort().values


def _map(trained: Run, rows: Tensor, title: str) -> tuple[DensityMap, dict[str, Any]]:
    data, index = trained.data, trained.index
    representations = of_test_part(trained)[torch.isin(data.indices("test"), rows)]
    labels = data.labels[rows]
    positions, centres = lay_out(representations.numpy(), index.centres.numpy())
    chosen = choose_shown(index)
    closest = nearest(index.centres[chosen], representations, CLOSEST)[1]
    callouts = [_callout(data, rows[ids], centres[j]) for j, ids in zip(chosen, closest, strict=True)]
    values = {
        "clusters": len(index),
        "same_class_in_space": _same_class(representations, labels),
        "same_class_on_map": _same_class(torch.from_numpy(positions), labels),
        "shown": [
            {
                "cluster": j,
                "class": data.classes[int(index.centre_labels[j])],
                "members": int(index.sizes[j]),
                "closest": callout.names,
            }
            for j, callout in zip(chosen, callouts, strict=True)
        ],
    }
    return DensityMap(title, positions, labels.numpy(), centres, callouts), values


def _callout(data: Dataset, rows: Tensor, centre: np.ndarray) -> Callout:
    pictures = thumbnails(data, rows.numpy(), CALLOUT_PIXELS)
    return Callout(centre, data.labels[rows].tolist(), pictures, [data.names[i] for i in rows.tolist()])


def _same_class(places: Tensor, labels: Tensor) -> float:
    """The share of examples (n, d) whose nearest other example is of the same class."""
    ids = nearest(places.float(), places.float(), 2)[1]
    other = torch.where(ids[:, 0] == torch.arange(len(places)), ids[:, 1], ids[:, 0])
    return float((labels[other] == labels).float().mean())


def _attribute_maps(lab: Lab, rows: Tensor, maps: list[DensityMap]) -> tuple[list[Path], list[str]]:
    try:
        attributes, note = attributes_of(lab.data, rows.numpy())
    except UserError as error:
        return [], [f"No map of attributes: {error}."]
    chosen = choose_attributes(attributes, lab.data.labels[rows].numpy())
    if not chosen:
        return [], ["No map of attributes: none varies among the test examples."]
    shown = {attributes.names[a]: attributes.values[:, a] == 1 for a in chosen}
    title = f"{lab.data.name}: examples that have an attribute, over the densities of the classes"
    figure = draw_attribute_maps(maps, lab.data.classes, shown, lab.out / "attribute-maps.png", title=title)
    return [figure], [note or ATTRIBUTES]


def _image_maps(lab: Lab, rows: Tensor, maps: dict[str, DensityMap]) -> tuple[list[Path], list[str]]:
    figures = []
    for method, panel in maps.items():
        placement = place(panel.positions)
        pictures = thumbnails(lab.data, rows.numpy()[placement.examples], THUMBNAIL)
        if pictures is None:
            return [], ["No image maps: the data is vectors, without pictures."]
        picture = mosaic(placement, pictures, panel.labels[placement.examples], len(lab.data.classes))
        name = "".join(c if c.isalnum() else "-" for c in method).strip("-")
        title = f"{lab.data.name}: {len(pictures):,} test examples on the map of {panel.title}"
        figures.append(draw_image_map(picture, lab.data.classes, lab.out / f"images-{name}.png", title=title))
    return figures, []


def choose_shown(index: ClusterIndex, pairs: int = 4) -> list[int]:
    """Up to 2 * pairs clusters: see CLUSTERS. Those smaller than half the mean of their class are left out."""
    found = []
    for label in index.centre_labels.unique().tolist():
        own = (index.centre_labels == label).nonzero().squeeze(1)
        own = own[index.sizes[own] >= index.sizes[own].float().mean() / 2]
        apart = (index.centres[own, None] - index.centres[None, own]).norm(dim=2)
        a, b = divmod(int(apart.argmax()), len(own))
        if a != b:
            found.append((float(apart[a, b]), int(own[a]), int(own[b])))
    found.sort(key=lambda pair: -pair[0])
    chosen = [cluster for _, *pair in found[:pairs] for cluster in pair]
    for cluster in index.sizes.argsort(descending=True, stable=True).tolist():
        if len(chosen) < 2 * pairs and cluster not in chosen:
            chosen.append(cluster)
    return chosen


def choose_attributes(attributes: Attributes, labels: np.ndarray) -> list[int]:
    """Up to two attributes: see ATTRIBUTES. Labels (n,) are of the same examples; unknown values don't count."""
    values = attributes.values
    known = ~np.isnan(values)
    has = np.where(known, values, 0)
    share = has.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    score = share * (1 - share)
    if attributes.level == "image":
        score = np.zeros(values.shape[1])
        for label in np.unique(labels):
            own = labels == label
            rate = has[own].sum(axis=0) / np.maximum(known[own].sum(axis=0), 1)
            score += own.mean() * rate * (1 - rate)
    chosen: list[int] = []
    for a in np.argsort(-score, kind="stable").tolist():
        if len(chosen) < 2 and score[a] > 0 and share[a] <= 0.5 and all(_related(has, a, b) < 0.5 for b in chosen):
            chosen.append(a)
    return chosen


def _related(has: np.ndarray, a: int, b: int) -> float:
    deviations = has[:, [a, b]] - has[:, [a, b]].mean(axis=0)
    scale = np.sqrt((deviations**2).sum(axis=0)).prod()
    return abs(float(deviations[:, 0] @ deviations[:, 1] / scale)) if scale else 1.0
