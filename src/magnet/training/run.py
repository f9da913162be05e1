"""A run that has been trained: its network, its classifiers, its data."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from magnet.data import Dataset
from magnet.errors import UserError
from magnet.index import ClusterIndex
from magnet.training.checkpoint import find_checkpoint, load_learner, read_progress
from magnet.training.embed import Report, embed
from magnet.training.train import CONFIG, read_config
from magnet.training.workbench import make_workbench


class Run:
    """A trained run, opened for use.

    Args:
        folder: the run.
        which: "best" (by validation; the last where there was none) or "last".
        device: where to compute; "auto" takes a GPU if there is one.
        test_draws: instead of the run's own.
    """

    def __init__(self, folder: Path, *, which: str = "best", device: str = "auto", test_draws: int = 0) -> None:
        if not (folder / CONFIG).is_file():
            raise UserError(f"{folder} is not a run: it has no {CONFIG}. Train one with `magnet train --out {folder}`")
        self.folder = folder
        self.config = read_config(folder)
        if test_draws:
            self.config = replace(self.config, test_draws=test_draws)
        self.checkpoint = find_checkpoint(folder / "checkpoint", which)
        self.step = int(read_progress(self.checkpoint)["step"])
        self.device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        self.bench = make_workbench(self.config, fresh=False)
        self.learner = self.bench.learner
        load_learner(self.checkpoint, self.learner)
        self.learner.to(self.device).eval()

    @property
    def data(self) -> Dataset:
        """The data that the run was trained on."""
        return self.bench.data

    def embed(
        self, rows: Tensor, data: Dataset | None = None, *, test: bool = False, report: Report | None = None
    ) -> Tensor:
        """Representations (n, d) of examples of the run's own or other data."""
        return embed(
            self.learner, data or self.data, rows, self.bench.views, device=self.device, workers=self.bench.workers,
            test=test, seed=self.config.seed, report=report,
        )  # fmt: skip

    @cached_property
    def references(self) -> Tensor:
        """Representations (N, d) of the training part."""
        return self.embed(self.bench.train)

    @cached_property
    def index(self) -> ClusterIndex:
        """The clusters of the training part under the final weights."""
        return ClusterIndex.fit(
            self.references, self.bench.labels, self.config.clusters_per_class, seed=self.config.seed
        )
