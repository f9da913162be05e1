"""What a reader found at a source, before it is split and made into a Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from magnet.data.attributes import Attributes

Content = np.ndarray | Sequence[Path]


@dataclass
class Listing:
    """The examples of a source in its own order.

    ``content`` is vectors (N, d), grey images as uint8 (N, H, W), or N image files. ``labels`` (N,) are ids into
    ``classes``, some of which may have no example yet. ``split`` (N,) is 0 train, 1 validation, 2 test, or None
    where the source states none. ``feature_names`` (d,) are those of the columns of vectors, or None.
    """

    name: str
    content: Content
    labels: np.ndarray
    classes: list[str]
    names: Sequence[str]
    split: np.ndarray | None = None
    attributes: Attributes | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    feature_names: list[str] | None = None

    def keep(self, rows: np.ndarray) -> Listing:
        """Only the examples at ``rows``, in that order."""
        content = self.content
        return Listing(
            name=self.name,
            content=content[rows] if isinstance(content, np.ndarray) else [content[i] for i in rows],
            labels=self.labels[rows],
            classes=self.classes,
            names=[self.names[i] for i in rows],
            split=None if self.split is None else self.split[rows],
            attributes=None if self.attributes is None else self.attributes.keep(rows),
            skipped=self.skipped,
            feature_names=self.feature_names,
        )


def compact_classes(labels: np.ndarray, classes: list[str]) -> tuple[np.ndarray, list[str]]:
    """Leave out classes without examples, so that the ids that remain are 0..C-1, each with a member."""
    present, compact = np.unique(labels, return_inverse=True)
    return compact.astype(np.int64), [classes[i] for i in present]
