"""Model: the network and the clusters of a run, for use without its data."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from magnet.backbones import Backbone
from magnet.classify import STAYS_KNOWN, NearestClusters, novelty, novelty_left_out
from magnet.data.images import decode, room
from magnet.errors import UserError
from magnet.evaluation.errors import temper
from magnet.export.description import Description
from magnet.files import as_path
from magnet.index import ClusterIndex
from magnet.neighbours import as_array, check_representations, check_whole, nearest
from magnet.start import first_directions
from magnet.training.inputs import PASS_BATCH, Views

EXPECTED = "paths, PIL images or uint8 arrays of shape (H, W), (H, W, 3) or (n, H, W, 3)"


class Answers(NamedTuple):
    """The predictions of a model for n inputs."""

    labels: list[str | None]  # None: refused, too far from all clusters
    probabilities: Tensor  # (n, C), calibrated, columns as `Model.classes`
    clusters: Tensor  # (n, k) ids of the nearest clusters, nearest first
    distances: Tensor  # (n, k) to their centres, in sigma
    novelty: Tensor  # (n,) the first of these


class Found(NamedTuple):
    """A training example near an input."""

    name: str
    label: str
    distance: float  # in sigma
    example: int  # its number among the references


class Model:
    """A network, the clusters of its training set, and perhaps the representations of the training set itself.

    Attributes:
        description: all that is not a tensor.
        index: the clusters; they vote for labels.
        references: (N, d) representations of the training set, or None; they are searched.
        names: of the references.
        shifts: (J, d) by which the centres that vote differ from the means of their members.
        directions: (d, D) of a shortened model: the axes of its space, as vectors of the network's D-dimensional space.
        notes: warnings about the run that it comes from, such as a damaged checkpoint.
    """

    def __init__(
        self,
        description: Description,
        network: Backbone,
        index: ClusterIndex,
        references: Tensor | None = None,
        names: Sequence[str] = (),
        shifts: Tensor | None = None,
        directions: Tensor | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.description, self.network, self.index = description, network.eval(), index
        self.directions = directions
        self.shifts = torch.zeros_like(index.centres) if shifts is None else shifts
        self.references, self.names, self.notes = references, list(names), list(notes)
        views = description.views
        self.views = Views(network, views.size, rescale=views.rescale, flip=views.flip, draws=views.draws)

    @property
    def classes(self) -> list[str]:
        """The names of the classes, by id."""
        return list(self.description.classes)

    @property
    def novelty_threshold(self) -> float | None:
        """The novelty above which an input is refused; 99 % of held-out examples of known classes are below it."""
        return self.description.votes.novelty_threshold

    @cached_property
    def rule(self) -> NearestClusters:
        """kNC over the clusters."""
        index, votes = self.index, self.description.votes
        weights = index.sizes.clamp_min(1) if votes.weighted else None
        means = NearestClusters(
            index, votes.neighbours, variance=votes.variance, scaling=votes.scaling, weights=weights
        )
        return means.moved_to(index.centres + self.shifts)

    def embed(self, inputs: Any) -> Tensor:
        """Representations (n, d) of images (paths, PIL images, uint8 arrays) or vectors (n, numbers), on the CPU."""
        return torch.cat([self._represent(raw) for raw in _raw_batches(inputs, self.description)])

    def classify(self, inputs: Any, *, count: int = 3, refuse: bool = False) -> Answers:
        """Labels, probabilities and the ``count`` nearest clusters; with ``refuse`` novel inputs get no label."""
        return self.judge(self.embed(inputs), count=count, refuse=refuse)

    def judge(self, representations: Tensor, *, count: int = 3, refuse: bool = False) -> Answers:
        """As `classify`, for representations (n, d)."""
        count = check_whole(count, "count", 1)
        probabilities = self.predict_proba(representations)
        squares, clusters = nearest(representations, self.index.centres, count)
        far = novelty(representations, self.index.centres, self.rule.variance)
        limit = self.novelty_threshold if refuse else None
        labels = [
            None if limit is not None and distance > limit else self.classes[column]
            for column, distance in zip(probabilities.argmax(dim=1).tolist(), far.tolist(), strict=True)
        ]
        return Answers(labels, probabilities, clusters, squares.sqrt() / self.rule.variance**0.5, far)

    def predict_proba(self, representations: Tensor) -> Tensor:
        """The calibrated probability of each class (n, C) for representations (n, d)."""
        p = temper(self.rule.predict_proba(representations), self.description.votes.temperature)
        return p.new_zeros(len(p), len(self.classes)).index_copy(1, self.rule.classes, p)

    def novelty(self, inputs: Any) -> Tensor:
        """The distance (n,) from the centre of the nearest cluster, in sigma."""
        return novelty(self.embed(inputs), self.index.centres, self.rule.variance)

    def search(self, inputs: Any, count: int = 10) -> list[list[Found]]:
        """The ``count`` nearest training examples of each input, nearest first."""
        return self.find(self.embed(inputs), count)

    def find(self, representations: Tensor, count: int = 10) -> list[list[Found]]:
        """As `search`, for representations (n, d)."""
        if self.references is None:
            raise UserError("the model has no references to search: export it with them (--with-references)")
        check_representations(representations)
        if representations.shape[1] != self.references.shape[1]:
            raise UserError(f"expected {self.references.shape[1]} dimensions; found {representations.shape[1]}")
        squares, ids = nearest(representations.cpu(), self.references, check_whole(count, "count", 1))
        labels = self.index.centre_labels[self.index.assignments]
        distances = squares.sqrt() / self.rule.variance**0.5
        return [
            [
                Found(self.names[i], self.classes[int(labels[i])], distance, i)
                for i, distance in zip(row, near, strict=True)
            ]
            for row, near in zip(ids.tolist(), distances.tolist(), strict=True)
        ]

    def extend(self, inputs: Any, labels: Sequence[Any], *, names: Sequence[str] = ()) -> "Model":
        """A model with these examples added, of known or new classes; the network stays the same.

        Args:
            inputs: n examples.
            labels: n class names; numbers are taken as their text.
            names: of the examples, for `search`; by default their paths, or numbers.
        """
        given = np.asarray(as_array(labels, "labels"), dtype=object)
        if given.ndim != 1:
            raise UserError(f"expected one label for each example; found labels of shape {given.shape}")
        new, words = self.embed(inputs), [_class_name(label) for label in given]
        if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
            raise TypeError(f"names must be a list of text; found {type(names).__name__}")
        called = list(names) or _names_of(inputs, len(new))
        if not len(words) == len(called) == len(new):
            raise UserError(f"there are {len(new)} examples, {len(words)} labels and {len(called)} names for them")
        classes = list(dict.fromkeys([*self.classes, *words]))
        number = {word: i for i, word in enumerate(classes)}
        ids = torch.tensor([number[word] for word in words])
        votes = self.description.votes
        reach = (torch.inf if votes.novelty_threshold is None else votes.novelty_threshold) * votes.variance**0.5
        # A new class gets as many clusters as the others, even of few examples, since all of its clusters vote.
        index = self.index.grown(new, ids, reach=reach, clusters_per_class=votes.clusters_per_class)
        references = None if self.references is None else torch.cat([self.references, new])
        called = [] if references is None else [*self.names, *called]
        shifts = torch.zeros_like(index.centres)  # new clusters are where their examples are
        shifts[: len(self.shifts)] = self.shifts
        description = replace(self.description, classes=tuple(classes))
        return Model(description, self.network, index, references, called, shifts, self.directions)

    def shortened(self, dims: int) -> "Model":
        """The same model with representations of fewer dimensions: those that tell classes apart come first.

        The unit of distances stays the same: in the dimensions that are left out, all classes are about equally far.
        """
        index = self.index
        if self.references is None:
            directions = first_directions(dims, index.centres, index.centre_labels, index.sizes)
        else:
            directions = first_directions(dims, self.references, index.centre_labels[index.assignments])
        index = ClusterIndex(index.centres @ directions.T, index.centre_labels, index.assignments, index.variance)
        references = None if self.references is None else self.references @ directions.T
        votes, limit = self.description.votes, None
        if votes.novelty_threshold is not None and references is not None:
            limit = float(novelty_left_out(references, index).quantile(STAYS_KNOWN))
        description = replace(self.description, votes=replace(votes, novelty_threshold=limit))
        shifts = self.shifts @ directions.T
        return Model(description, self.network, index, references, self.names, shifts, directions)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a bundle, a folder that `magnet.load` reads; it must not exist yet."""
        from magnet.export.bundle import export_bundle

        if self.directions is not None:
            raise UserError("a shortened model is not saved: save the whole one, and shorten it where it is used")
        export_bundle(self, as_path(path))

    @torch.no_grad()
    def represent(self, view: Tensor) -> Tensor:
        """Representations (b, d) of inputs (b, ...), which are prepared as the network takes them."""
        r = self.network(view.to(next(self.network.parameters()).device)).float().cpu()
        return nn.functional.normalize(r, dim=1) if self.description.network.normalised else r

    def _represent(self, raw: Tensor) -> Tensor:
        seen = self.views.test(raw, self.description.views.seed)
        r = torch.stack([self.represent(view) for view in seen]).mean(dim=0)
        r = nn.functional.normalize(r, dim=1) if self.description.network.normalised else r
        return r if self.directions is None else r @ self.directions.T


def _raw_batches(inputs: Any, description: Description) -> Iterator[Tensor]:
    """Yield batches of vectors, float32 (b, d), or of images, uint8 (b, 3, S, S); a single example is one batch."""
    if description.kind == "vectors":
        yield from _as_vectors(inputs, description.network.shape[0]).split(PASS_BATCH["vectors"])
        return
    images, size = _as_images(inputs), PASS_BATCH["images"]
    side = room(description.views.size, description.views.rescale)
    for start in range(0, len(images), size):
        yield torch.stack([decode(image, side) for image in images[start : start + size]])


def _as_vectors(inputs: Any, width: int) -> Tensor:
    """Vectors, float32 (n, width), from anything that numpy converts to a table of numbers."""
    try:
        table = torch.as_tensor(np.asarray(as_array(inputs, "vectors")))
    except (TypeError, ValueError) as error:
        raise UserError(f"the model takes vectors of {width} numbers, found {type(inputs).__name__}") from error
    rows = table.reshape(1, -1) if table.ndim == 1 else table
    if rows.ndim != 2 or rows.shape[1] != width or not len(rows):
        raise UserError(f"the model takes vectors of shape (n, {width}), n >= 1; found {tuple(table.shape)}")
    rows = rows.to(torch.float32)
    if not bool(rows.isfinite().all()):
        raise UserError("the vectors hold NaN or infinity")
    return rows


def _as_images(inputs: Any) -> Sequence[Path | Image.Image | np.ndarray]:
    """A sequence of images that `decode` takes."""
    if isinstance(inputs, Tensor):  # channels first, as torch has them
        inputs = inputs.detach().cpu().movedim(-3, -1).numpy() if inputs.ndim > 2 else inputs.cpu().numpy()
    if isinstance(inputs, str | PathLike | Image.Image) or (isinstance(inputs, np.ndarray) and _is_one_image(inputs)):
        inputs = [inputs]
    if not isinstance(inputs, Sequence | np.ndarray) or not len(inputs):
        found = "nothing" if isinstance(inputs, Sequence) else type(inputs).__name__
        raise UserError(f"the model takes images: {EXPECTED}; found {found}")
    return [_image(entry) for entry in inputs]


def _is_one_image(pixels: np.ndarray) -> bool:
    """Whether an array is one image and not several."""
    return pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[-1] == 3)


def _class_name(label: Any) -> str:
    """The name of a class: text as it is, numbers as text, whole ones without a fraction."""
    value = label.item() if isinstance(label, np.generic | Tensor) else label
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _names_of(inputs: Any, count: int) -> list[str]:
    """Names for new examples: their paths, or numbers."""
    entries = [inputs] if isinstance(inputs, str | PathLike) else inputs
    named = isinstance(entries, Sequence) and all(isinstance(entry, str | PathLike) for entry in entries)
    return [fspath(entry) for entry in entries] if named else [f"added {i}" for i in range(count)]


def _image(entry: Any) -> Path | Image.Image | np.ndarray:
    if isinstance(entry, str | PathLike):
        return Path(entry)
    if isinstance(entry, Image.Image):
        return entry
    if isinstance(entry, np.ndarray) and entry.dtype == np.uint8 and _is_one_image(entry):
        return entry
    found = f"{entry.dtype} {entry.shape}" if isinstance(entry, np.ndarray) else type(entry).__name__
    raise UserError(f"the model takes images: {EXPECTED}; found {found}")
