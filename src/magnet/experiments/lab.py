"""Lab: what all experiments share: the data, an equally large search for every method, and the cache of runs."""

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from rich.console import Console

from magnet.data import Dataset
from magnet.data.listings import PARTS
from magnet.errors import UserError, check_at_least
from magnet.experiments.cache import judged, key_of, trained
from magnet.experiments.search import (
    CLASSES,
    STARTED,
    VOTES,
    Settings,
    chosen,
    read_settings,
    settings_for,
    trials,
    with_dropout,
)
from magnet.files import read_json, replacing
from magnet.methods import method_class
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.search import VALIDATION
from magnet.training.workbench import complete, open_for, prepare

METHODS = ("softmax", "triplet", "semantic-triplet", "magnet")
PEERS = (
    "pml/ProxyAnchorLoss", "pml/SoftTripleLoss", "pml/SupConLoss", "pml/MultiSimilarityLoss", "pml/ArcFaceLoss",
    "pml/ProxyNCALoss",
)  # fmt: skip
MAPPED = ("softmax", "semantic-triplet", "magnet")  # the panels of the paper, whose triplet there is the semantic one
UNSET = ("seed", "validation", "workers")  # settings that the rows of a table have in common
ONLY_LAST = 10**9  # epochs between validations: only the one at the end is made


def methods_of(experiment: str, given: tuple[str, ...] = (), *, peers: bool = False) -> tuple[str, ...]:
    """What an experiment compares, in the order of its rows."""
    if given:
        for row in given:
            method_class(read_row(row)[0])  # tells which there are
        if "magnet" not in given or len(set(given)) < len(given):
            raise UserError(f"--methods must name magnet and others, each once; found {' '.join(given)}")
        return given
    if experiment == "maps":
        return MAPPED
    return (
        (*METHODS, *PEERS)
        if peers and experiment in ("fine-grained", "metrics", "hierarchy", "coarse-to-fine")
        else METHODS
    )


def read_row(row: str) -> tuple[str, dict[str, Any]]:
    """The method and the settings of a row, which is written as ``magnet`` or as ``magnet(own_mean=batch,alpha=2)``.

    The brackets of ``pml/NAME(...)`` hold arguments of the loss and belong to the method's name.
    """
    method, bracket, rest = row.partition("(")
    if not bracket or method.startswith("pml/"):
        return row, {}
    kinds = {name: kind for name, kind in get_type_hints(TrainConfig).items() if name not in UNSET}
    settings: dict[str, Any] = {}
    for word in rest.removesuffix(")").split(","):
        name, _, text = (piece.strip() for piece in word.partition("="))
        kind = kinds.get(name)
        try:
            if get_origin(kind) is Literal and text in get_args(kind):
                settings[name] = text
            elif kind in (int, float) and rest.endswith(")"):
                settings[name] = kind(text)
            else:
                raise ValueError
        except ValueError:
            raise UserError(
                f"--methods {row!r} is not understood at {word.strip()!r}: write METHOD or METHOD(setting=value,...) "
                "with settings of `magnet train`, such as magnet(own_mean=batch,schedule=annealing)"
            ) from None
    return method, settings


def _write(file: Path, values: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as draft:
        draft.write_text(json.dumps(values), encoding="utf-8")


def best_of(ranked: list[tuple[float, TrainConfig]], keep: int) -> list[tuple[float, TrainConfig]]:
    """The first ``keep`` ranked trials without diverged ones; the first trial if all diverged."""
    return [trial for trial in ranked[:keep] if not math.isinf(trial[0])] or ranked[:1]


@dataclass
class Lab:
    """The conditions of an experiment, and its runs so far."""

    configure: Callable[[str], TrainConfig]  # a row, such as magnet or magnet(own_mean=batch), before the search
    out: Path  # the folder of the results; runs are kept in out/../runs for the next experiment too
    _: KW_ONLY
    fixed: frozenset[str] = frozenset()  # settings that are not searched
    methods: Sequence[str] = METHODS  # what is compared, in the order of the rows
    seeds: int = 3  # runs of every chosen configuration
    pairings: int = 5  # random pairings of classes in the hierarchy experiment
    trials: int = 16  # of the search, for each method
    settings: Path | None = None  # results of an experiment whose chosen settings are taken instead of searching
    linear: bool = True  # whether the leaderboard has linear models too
    groups: bool = True  # whether the hierarchy experiment merges classes into their real groups too
    console: Console = field(default_factory=Console)  # where progress is shown
    chosen: Settings = field(default_factory=dict, init=False)  # so far

    def __post_init__(self) -> None:
        for name in ("seeds", "trials", "pairings"):
            check_at_least(name, getattr(self, name), 1)
        self._given = None if self.settings is None else read_settings(self.settings)
        self.runs = self.out.parent / "runs"
        self._done, self._expected = 0, 0

    @cached_property
    def data(self) -> Dataset:
        """The data that the final runs are trained and tested on.

        If the data comes with a validation part, as Flowers does, settings are chosen by it; the final runs train on it
        too.
        """
        data = self._sized(open_for(replace(self.configure("magnet"), validation=0.0)))
        data.split = np.where(data.split == PARTS["validation"], PARTS["train"], data.split).astype(data.split.dtype)
        return data

    @cached_property
    def held(self) -> Dataset:
        """The data with a validation part held out of the training part, to choose settings by."""
        config = self.configure("magnet")
        data = self._sized(open_for(replace(config, validation=config.validation or VALIDATION)))
        if not len(data.indices("validation")):
            raise UserError(f"{config.data} leaves no examples for validation: give a larger --validation")
        return data

    def expect(self, runs: int) -> None:
        """Announce further trainings and trials, so that the progress can be shown."""
        self._expected += runs

    @property
    def runs_of_best(self) -> int:
        """The number of trainings and trials that a comparison of all methods takes."""
        return len(self.methods) * (self.seeds + self.tries)

    @property
    def tries(self) -> int:
        """The number of trials that choosing the settings of one method takes."""
        if self.settings is not None:
            return 0
        votes = int(self.configure("magnet").votes == "chosen")
        return self.trials + len(with_dropout([self.configure("magnet")] * self.trials, self.fixed)) + votes

    def fixed_for(self, row: str) -> frozenset[str]:
        """The settings that are not searched for a row: those given for all rows, and those in its brackets."""
        return self.fixed | read_row(row)[1].keys()

    def best(self, method: str, held: Dataset | None = None, part: str = CLASSES) -> TrainConfig:
        """The settings of the trial with the lowest validation error, or the given settings (see `search`)."""
        return self.search(method, held, part)[0][1]

    def search(
        self, method: str, held: Dataset | None = None, part: str = CLASSES, keep: int = 1
    ) -> list[tuple[float, TrainConfig]]:
        """All trials of a method (validation error at the end of the run, settings), best first.

        Args:
            method: its name.
            held: other data than `held`, such as data with merged classes.
            part: what the settings are chosen for, as named in the results file.
            keep: how many of the best the experiment uses.
        """
        ranked = self._search(method, held, part)
        kept = []
        for place, (error, config) in enumerate(best_of(ranked, keep)):
            if self.settings is None and config.votes == "chosen":
                config = self._with_votes(config, held)
                ranked[place] = error, config
            kept.append(config)
        self.chosen.setdefault(part, {})[method] = [chosen(config, self.fixed_for(method)) for config in kept]
        return ranked

    def _search(self, method: str, held: Dataset | None, part: str) -> list[tuple[float, TrainConfig]]:
        start, fixed = self.started(method, held), self.fixed_for(method)
        found: list[tuple[float, TrainConfig]] = []
        if self.settings is not None and self._given is not None:
            given = settings_for(self.settings, self._given, part, self.methods)[method]
            free = [{name: value for name, value in one.items() if name not in fixed} for one in given]
            return [(math.nan, replace(start, **one)) for one in free]

        def attempt(config: TrainConfig, what: str) -> None:
            curve = self.judge(replace(config, validate_every=ONLY_LAST), held, what)
            found.append((curve[-1][1] if curve else math.inf, config))
            found.sort(key=lambda pair: pair[0])

        for number, drawn in enumerate(trials(start, self.trials, fixed), start=1):
            attempt(replace(start, **drawn), f"trial {number}")
        for config in with_dropout([config for error, config in found if not math.isinf(error)], fixed):
            attempt(config, f"dropout {config.dropout}")
        return found

    def started(self, method: str, held: Dataset | None) -> TrainConfig:
        """The settings of a row before the search, including what the whitened start chooses."""
        config, data = self.configure(method), self.held if held is None else held
        if config.start != "whitened" or self.settings is not None:
            return config
        file = self.runs / f"{key_of(config, data)}.start.json"
        if not file.is_file():
            with self.console.status(f"choosing the start of {method}"):
                found = prepare(complete(config, data), data).config
            # The length stays in epochs, since the final training part is larger; votes are chosen after the search.
            found = replace(found, steps=config.steps, refresh_every=config.refresh_every, votes_scaling=0.0,
                            votes_clusters=0, pull=0.0, centres=config.centres)  # fmt: skip
            _write(file, {name: getattr(found, name) for name in (*STARTED, "dim")})
        return replace(config, **read_json(file))

    def _with_votes(self, config: TrainConfig, held: Dataset | None) -> TrainConfig:
        """The settings with the votes that the validation part chooses, for the final runs, which have no such part."""
        data = self.held if held is None else held
        file = self.runs / f"{key_of(config, data)}.votes.json"
        if not file.is_file():
            start = time.monotonic()
            last = replace(config, validate_every=ONLY_LAST)
            folder = trained(last, data, self.runs, self._wait)
            if folder is None:
                return config
            votes = Run(folder, which="last", data=data).embeddings.votes
            judged(last, data, self.runs, self._wait)  # its weights are not needed any more
            knc, knn = votes["knc"], votes["knn"]
            centres = "means" if knc.pull is None else "refined"
            values = (knc.scaling, knc.clusters, centres, knc.pull or 0.0, knn.scaling, knn.neighbours)
            _write(file, dict(zip(VOTES, values, strict=True)))
            self._tell(config, "votes chosen", start)
        return replace(config, **read_json(file))

    def judge(self, config: TrainConfig, held: Dataset | None = None, what: str = "") -> list[tuple[int, float]]:
        """The validation errors (step, error) of a run on `held`; none if it diverged."""
        data, start = self.held if held is None else held, time.monotonic()
        curve = judged(config, data, self.runs, self._wait)
        shown = f"{curve[-1][1]:.1%}" if curve else "diverged"
        self._tell(config, f"{what}: validation error {shown}", start)
        return curve

    def folder(self, config: TrainConfig) -> Path:
        """Where a run on `held` is kept."""
        return self.runs / key_of(config, self.held)

    def train(self, config: TrainConfig, data: Dataset | None = None) -> Run | None:
        """The run of a configuration, on `data` unless other data is given; trained now if it has not been.

        None if it diverged: the experiment reports that and goes on.
        """
        data, start = self.data if data is None else data, time.monotonic()
        folder = trained(config, data, self.runs, self._wait)
        self._tell(config, f"seed {config.seed}{'' if folder else ': diverged'}", start)
        return Run(folder, which="last", data=data) if folder else None

    def seeded(self, config: TrainConfig) -> list[TrainConfig]:
        """The configuration with each of the seeds."""
        return [replace(config, seed=config.seed + s) for s in range(self.seeds)]

    def about(self) -> dict[str, Any]:
        """What is needed to repeat an experiment, for its results file."""
        base = complete(self.configure("magnet"), self.data).to_dict()
        names = ("backbone", "dim", "hidden", "epochs", "steps", "schedule", "clusters_per_batch", "image_size",
                 "examples_per_cluster", "own_mean", "start", "optimiser", "momentum", "trunk_rate",
                 "test_draws")  # fmt: skip
        examples = {part: len(self.data.indices(part)) for part in ("train", "validation", "test")}
        return {
            "data": self.data.name,
            "examples": examples | {"classes": len(self.data.classes)},
            "seeds": self.seeds,
            "trials": self.trials,
            "dropouts": [config.dropout for config in with_dropout([self.configure("magnet")], self.fixed)],
            "conditions": {name: base[name] for name in names},
            "settings": self.chosen,
        }

    def _sized(self, data: Dataset) -> Dataset:
        config = complete(self.configure("magnet"), data)
        return data.with_image_size(config.image_size, config.rescale) if data.kind == "images" else data

    def _wait(self) -> None:
        self.console.print("[dim]waiting: another process is training the same run[/]", highlight=False)

    def _tell(self, config: TrainConfig, what: str, start: float) -> None:
        self._done += 1
        seconds = time.monotonic() - start
        took = f" ({seconds:.0f} s)" if seconds > 1 else ""
        of = f" of {self._expected}" if self._expected >= self._done else ""
        self.console.print(f"[dim]run {self._done}{of}: {config.method} {what}{took}[/]", highlight=False)
