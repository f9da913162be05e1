"""Confusion: the classes that go wrong most, and what they are taken for."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def worst_classes(
    predicted: Tensor, labels: Tensor, classes: Sequence[str], count: int = 10, mistakes: int = 3
) -> list[dict[str, Any]]:
    """The classes with the largest share of errors, worst first; those without errors are left out.

    Args:
        predicted: (n,) class ids.
        labels: (n,) the truth.
        classes: the name of each id.
        count: how many classes at most.
        mistakes: how many wrong answers to name for each, the most frequent first.

    Returns:
        For each: ``class``, ``n`` its examples, ``error`` a fraction, ``taken_for`` a list of ``class`` and ``n``.
    """
    sizes = torch.bincount(labels, minlength=len(classes))
    wrong = predicted != labels
    errors = torch.bincount(labels[wrong], minlength=len(classes))
    share = errors / sizes.clamp_min(1)
    # Of two classes with the same share the one with more errors is worse.
    order = sorted(range(len(classes)), key=lambda c: (-float(share[c]), -int(errors[c]), c))
    return [
        {
            "class": classes[c],
            "n": int(sizes[c]),
            "error": int(errors[c]) / int(sizes[c]),
            "taken_for": _frequent(predicted[wrong & (labels == c)], classes, mistakes),
        }
        for c in order[:count]
        if errors[c]
    ]


def _frequent(answers: Tensor, classes: Sequence[str], count: int) -> list[dict[str, Any]]:
    ids, times = answers.unique(return_counts=True)
    order = times.argsort(descending=True, stable=True)[:count].tolist()
    return [{"class": classes[int(ids[i])], "n": int(times[i])} for i in order]
