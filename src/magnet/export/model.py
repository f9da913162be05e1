"""Model: what a run has learnt, ready for use without its data."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from magnet.backbones import Backbone
from magnet.classify import SoftNeighbours
from magnet.errors import UserError
from magnet.evaluation.calibration import temper
from magnet.export.answers import Answers, Found
from magnet.export.description import Description
from magnet.export.inputs import class_name, names_of, raw_batches
from magnet.index import ClusterIndex
from magnet.neighbours import nearest
from magnet.runs.calibrate import novelty
from magnet.training.workbench import Views


class Model:
    """A network, the clusters of its training set, and perhaps the representations of the training set itself.

    Attributes:
        description: all that is not a tensor.
        index: the clusters; they vote for labels.
        references: (N, d) representations of the training set, or None; they are searched.
        names: of the references.
    """

    def __init__(
        self,
        description: Description,
        network: Backbone,
        index: ClusterIndex,
        references: Tensor | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self.description, self.network, self.index = description, network.eval(), index
        self.references, self.names = references, list(names)
        views = description.views
        self.views = Views(network, views.size, rescale=views.rescale, flip=views.flip, draws=views.draws)

    @property
    def classes(self) -> list[str]:
        """The names of the classes, by id."""
        return list(self.description.classes)

    @property
    def novelty_threshold(self) -> float | None:
        """The novelty above which an input is refused: 99 % of known ones that were held out stay below it."""
        return self.description.votes.novelty_threshold

    @cached_property
    def rule(self) -> SoftNeighbours:
        """kNC over the clusters."""
        i, v = self.index, self.description.votes
        return SoftNeighbours(i.centres, i.centre_labels, v.neighbours, variance=v.variance, scaling=v.scaling)

    def embed(self, inputs: Any) -> Tensor:
        """Representations (n, d) of images (paths, PIL images, uint8 arrays) or vectors (n, numbers), on the CPU."""
        return torch.cat([self._represent(raw) for raw in raw_batches(inputs, self.description)])

    def classify(self, inputs: Any, *, count: int = 3, refuse: bool = False) -> Answers:
        """Labels, probabilities and the ``count`` nearest clusters; with ``refuse`` novel inputs get no label."""
        return self.judge(self.embed(inputs), count=count, refuse=refuse)

    def judge(self, representations: Tensor, *, count: int = 3, refuse: bool = False) -> Answers:
        """`classify`, of representations (n, d)."""
        probabilities = self.predict_proba(representations)
        squares, clusters = nearest(representations, self.index.centres, count)
        far = novelty(self.rule, representations)
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
        return novelty(self.rule, self.embed(inputs))

    def search(self, inputs: Any, count: int = 10) -> list[list[Found]]:
        """The ``count`` nearest training examples of each input, nearest first."""
        return self.find(self.embed(inputs), count)

    def find(self, representations: Tensor, count: int = 10) -> list[list[Found]]:
        """`search`, of representations (n, d)."""
        if self.references is None:
            raise UserError("the model has no references to search: export it with them (--with-references)")
        squares, ids = nearest(representations, self.references, count)
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
        """A model that also knows these examples, of known or of new classes; the map stays as it is.

        Args:
            inputs: n examples.
            labels: n class names; numbers are taken as their text.
            names: of the examples, for `search`; their paths, or numbers, where not given.
        """
        new, words = self.embed(inputs), [class_name(label) for label in labels]
        called = list(names) or names_of(inputs, len(new))
        if not len(words) == len(called) == len(new):
            raise UserError(f"there are {len(new)} examples, {len(words)} labels and {len(called)} names for them")
        classes = list(dict.fromkeys([*self.classes, *words]))
        number = {word: i for i, word in enumerate(classes)}
        ids = torch.tensor([number[word] for word in words])
        votes = self.description.votes
        reach = (torch.inf if votes.novelty_threshold is None else votes.novelty_threshold) * votes.variance**0.5
        # As many clusters as other classes have, however few the examples: a class votes with all of its clusters.
        index = self.index.grown(new, ids, reach=reach, clusters_per_class=votes.clusters_per_class)
        references = None if self.references is None else torch.cat([self.references, new])
        called = [] if references is None else [*self.names, *called]
        return Model(replace(self.description, classes=tuple(classes)), self.network, index, references, called)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a bundle, a folder that `magnet.load` reads; it must not exist yet."""
        from magnet.export.bundle import export_bundle

        export_bundle(self, path)

    @torch.no_grad()
    def represent(self, view: Tensor) -> Tensor:
        """The network itself: inputs (b, ...) as it takes them to representations (b, d)."""
        r = self.network(view.to(next(self.network.parameters()).device)).float().cpu()
        return nn.functional.normalize(r, dim=1) if self.description.network.normalised else r

    def _represent(self, raw: Tensor) -> Tensor:
        seen = self.views.test(raw, self.description.views.seed)
        r = torch.stack([self.represent(view) for view in seen]).mean(dim=0)
        return nn.functional.normalize(r, dim=1) if self.description.network.normalised else r
