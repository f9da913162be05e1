"""Search: the configuration of a search."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from magnet.errors import UserError
from magnet.training.config import TrainConfig
from magnet.training.search_space import Space, space_of
from magnet.training.study import Sampler, Study

if TYPE_CHECKING:
    from magnet.data import Dataset

VALIDATION = 0.2  # of the training part, where the data has no validation part of its own
FREE = ("out", "quiet", "workers", "device", "tensorboard", "evaluate")  # settings that do not change a result


@dataclass(frozen=True)
class Search:
    """What is searched, and how. ``fixed`` names settings that keep the value they have in ``config``."""

    config: TrainConfig
    folder: Path
    trials: int = 20
    jobs: int = 1
    sampler: Sampler = "random"
    fixed: frozenset[str] = frozenset()
    keep: bool = False

    def __post_init__(self) -> None:
        for name in ("trials", "jobs"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} must be at least 1; found {getattr(self, name)}")
        self.config.check()

    @property
    def base(self) -> TrainConfig:
        """The settings of all trials, but for what is drawn."""
        return replace(self.config, validation=self.config.validation or VALIDATION, evaluate=False)

    @property
    def space(self) -> Space:
        """What is drawn."""
        return space_of(self.config, self.fixed)

    def open(self, data: "Dataset") -> Study:
        """The study, old or new, of the data that its trials are trained on."""
        settings = {name: value for name, value in self.base.to_dict().items() if name not in FREE}
        settings = {name: value for name, value in settings.items() if name in self.fixed or name not in self.space}
        settings |= {"searched": sorted(self.space), "content of the data": data.digest.whole}
        return Study(self.folder, settings, sampler=self.sampler, seed=self.config.seed)

    def run_folder(self, number: int) -> Path:
        """The run of a trial."""
        return self.folder / "trials" / f"{number:04d}"
