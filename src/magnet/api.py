"""The commands `train`, `evaluate` and `explore` as Python functions; they take data in memory too."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import torch

from magnet.data import Dataset, open_data
from magnet.data.pairs import list_pairs
from magnet.data.tables import list_frame
from magnet.errors import UserError, checked
from magnet.files import as_path
from magnet.neighbours import as_array
from magnet.report.explorer.build import build_explorer
from magnet.runs.evaluate import evaluate as measure
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.presets import with_preset
from magnet.training.train import train as train_run


def train(data: Any, out: str | Path | None = None, *, silent: bool = False, **settings: Any) -> Run:
    """Train a representation (section 3.2), and open the run.

    Args:
        data: what `--data` takes; or a pair (X, y) of arrays, tensors or frames, vectors (N, d) and labels (N,); or a
            frame of pandas or polars with a column of labels (``label="NAME"``); or a torch data set of pairs, vectors
            or images with their labels; or a `magnet.data.Dataset`. Data in memory is not written to the run: the run
            can classify and search later on, but it can be evaluated only on data that is given.
        out: the folder of the run (default: runs/DATA-METHOD-SEED).
        silent: show nothing while it trains.
        settings: the options of `magnet train`, such as ``method``, ``preset``, ``epochs``, ``seed``, ``validation``.

    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> run = train(load_digits(return_X_y=True), folder, steps=60, silent=True)
    >>> evaluate(run)["knc"]["error"] < 0.1
    True
    """
    unknown = sorted(settings.keys() - {field.name for field in dataclasses.fields(TrainConfig)})
    if unknown:
        raise UserError(f"magnet.train() has no setting {unknown[0]!r}: see `magnet train --help`")
    kinds = get_type_hints(TrainConfig, include_extras=True)
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
    settings = {name: checked(value, kinds[name], f"the setting {name}") for name, value in plain.items()}
    known = {name: settings[name] for name in ("seed", "validation", "label", "judge") if name in settings}
    opened = _dataset(data, **known)
    spec = opened.spec if isinstance(data, Dataset) or not isinstance(data, str | Path) else str(data)
    given = {"preset": "auto" if isinstance(data, str | Path) else opened.kind} | settings
    decisive = ("method", "backbone", "start", "freeze", "weights", "warm_start")
    decides = {name: given[name] for name in decisive if name in given}
    begin = TrainConfig(spec, preset=given.pop("preset"), **decides)
    config = dataclasses.replace(with_preset(begin), **given, out=None if out is None else as_path(out))
    run = Run(train_run(config, data=opened, silent=silent), data=opened)
    if not isinstance(data, str | Path):  # cannot be opened again: cache now what classifying and searching need
        _ = run.embeddings, run.calibration
    return run


def evaluate(run: Run | str | Path, data: Any = None, part: str = "test") -> dict[str, Any]:
    """Errors of a run under kNC, soft kNN (section 3.3) and its own head: see `magnet.runs.evaluate.evaluate`.

    Args:
        run: an opened run, or its folder.
        data: other data than the run's own, as for `train`; its classes are matched by name.
        part: "train", "validation", "test" or "all".

    >>> import tempfile
    >>> X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    >>> run = train((X + 9 * y[:, None], y), tempfile.mkdtemp() + "/run", steps=3, silent=True)
    >>> found = evaluate(run)
    >>> found["n"], found["knc"]["error"], found["knn"]["error"]
    (18, 0.0, 0.0)
    """
    opened = run if isinstance(run, Run) else Run(run, need_data=data is None)
    if data is None or isinstance(data, str | Path):
        return measure(opened, None if data is None else str(data), part)
    return measure(opened, _dataset(data, seed=opened.config.seed, label=opened.config.label), part)


def explore(runs: Run | str | Path | Sequence[Run | str | Path], out: str | Path = "explore.html") -> Path:
    """Write the page that shows what one to three runs have learnt (maps as in appendix A), and return where it is.

    Args:
        runs: opened runs or their folders, all on the same data.
        out: the page, or a folder, which has all pictures beside its page.

    >>> import tempfile
    >>> folder, X = Path(tempfile.mkdtemp()), np.random.default_rng(0).normal(size=(60, 4))
    >>> run = train((X, np.arange(60) % 2), folder / "run", steps=3, silent=True)
    >>> explore(run, folder / "explore.html").name
    'explore.html'
    """
    several: list[Any] = list(runs) if isinstance(runs, list | tuple) else [runs]
    out, opened = as_path(out), [run if isinstance(run, Run) else Run(run) for run in several]
    explorer = build_explorer(opened, examples=10_000, seed=0, say=lambda what: lambda done, total: None)
    return explorer.write(out).page


def _dataset(data: Any, *, seed: int = 0, validation: float = 0.0, label: str = "", judge: str = "") -> Dataset:
    """Data of any kind that `train` takes, as a `Dataset`."""
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        return open_data(str(data), label=label, judge=judge, seed=seed, validation=validation)
    if isinstance(data, torch.utils.data.Dataset):
        return Dataset(list_pairs(data), spec="pairs", seed=seed, validation=validation)
    if hasattr(data, "column_names") and hasattr(data, "to_pandas"):  # a table of pyarrow, a data set of `datasets`
        data = data.to_pandas()
    if hasattr(data, "columns") and not isinstance(data, tuple | list):
        return Dataset(list_frame(data, label, judge), spec="frame", seed=seed, validation=validation)
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise UserError(
            f"found data of type {type(data).__name__}; expected a path, a pair (X, y), a frame with a column of "
            "labels, a torch data set of pairs, or a magnet.data.Dataset"
        )
    X, y = data
    X, y = as_array(X, "X"), as_array(y, "y")
    names = {"feature_names": np.array([str(name) for name in X.columns])} if hasattr(X, "columns") else {}
    X = X if hasattr(X, "toarray") else np.asarray(X)  # a sparse matrix is refused by name later on
    return Dataset.from_arrays(X, np.asarray(y), seed=seed, validation=validation, **names)
