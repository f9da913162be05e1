"""Every option of the commands, with values that make no sense."""

import contextlib
import dataclasses
import random
import shutil
import socket
from collections.abc import Iterator
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

from faults.outcomes import HANG, Outcome, command
from magnet.commands.train import TrainOptions
from training.short_runs import write_vectors

VALUES = (
    "", "nan", "inf", "-inf", "-1", "0", "1e309", "-1e-320", "99999999999999999999", "3.7", "abc", "../../../x", "[]",
    "1e18", "1000000000000",
)  # fmt: skip
LONG = {"epochs", "steps", "warm_start_epochs"}  # of which a large number is a long training, and no nonsense


def odd_options(folder: Path, cases: int | None, seed: int) -> Iterator[tuple[str, Outcome]]:
    """All options with all values, or so many of them; each trains two steps where it is taken."""
    folder.mkdir(parents=True, exist_ok=True)
    data = write_vectors(folder / "x.npz")
    names = [field.name for field in dataclasses.fields(TrainOptions) if field.type is not bool]
    pairs = [(name, value) for name in names for value in VALUES]
    if cases is not None:
        pairs = random.Random(seed).sample(pairs, min(cases, len(pairs)))
    for number, (name, value) in enumerate(pairs):
        out = folder / f"run-{number}"
        usual = {
            "data": data, "out": str(out), "preset": "paper/default", "backbone": "mlp", "steps": "2", "hidden": "8",
            "dim": "4", "device": "cpu",
        }  # fmt: skip
        usual[name] = value
        if name in ("resume", "config"):
            usual = {name: value}
        words = [f"--{option.replace('_', '-')}={given}" for option, given in usual.items()]
        with chdir(folder):  # where what an odd --out names is written
            outcome = command("train", *words, "--quiet", "--no-evaluate", seconds=30)
        if outcome.kind == HANG and name in LONG:
            outcome = Outcome("said", "a long training")
        yield f"--{name}={value}", outcome
        shutil.rmtree(out, ignore_errors=True)


# Each command with words that it takes; the module and the class of its options; options that it needs.
READERS: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "classify": ("classify.Classify", ["RUN", "ROWS"], {}),
    "search": ("search.Search", ["RUN", "ROWS"], {}),
    "verify": ("verify.Verify", ["RUN", "ROWS", "ROWS"], {}),
    "embed": ("embed.Embed", ["RUN", "ROWS"], {"out": "OUT/e.npz", "force": "True"}),
    "evaluate": ("evaluate.Evaluate", ["RUN"], {}),
    "suspects": ("suspects.Suspects", ["RUN"], {}),
    "export": ("export.Export", ["RUN"], {"to": "OUT/bundle", "force": "True"}),
    "explore": ("explore.Explore", ["RUN"], {"out": "OUT/x.html", "open": "False"}),
    "report": ("report.ReportOptions", ["RUN"], {"out": "OUT/r.html"}),
    "serve": ("serve.Serve", ["RUN"], {"port": "0"}),
    "data look": ("data.Look", ["digits"], {}),
    "tune": (
        "tune.TuneOptions",
        [],
        {"data": "DATA", "steps": "2", "trials": "1", "out": "OUT/search", "quiet": "True"},
    ),
}
OF_TUNE = ("trials", "jobs", "sampler")  # its others are those of train
MORE = ("2147483648", "-9223372036854775809", "/", "/dev/zero", "/dev/full", "/proc/self/mem", "\udcff", "x" * 300)


def odd_readers(run: Path, folder: Path, cases: int | None, seed: int) -> Iterator[tuple[str, Outcome]]:
    """The options and words of the other commands with all values, or so many of them."""
    import uvicorn

    folder.mkdir(parents=True, exist_ok=True)
    places = {"RUN": str(run), "ROWS": str(run.parent / "rows.npy"), "DATA": str(run.parent / "x.npz")}
    pairs = []
    for name, (options, words, _) in READERS.items():
        module, kind = options.split(".")
        fields = dataclasses.fields(getattr(import_module(f"magnet.commands.{module}"), kind))
        named = [field.name for field in fields if field.type not in (bool, "bool")]
        taken = ("run", "runs", "inputs", "first", "second", "spec", "push")  # words; and what goes to the network
        own = OF_TUNE if name == "tune" else [field for field in named if field not in taken]
        pairs += [(name, place, value) for place in (*own, *range(len(words))) for value in (*VALUES, *MORE)]
    written = ("out", "to", "table")
    pairs = [(name, place, value) for name, place, value in pairs if place not in written or not value.startswith("..")]
    if cases is not None:
        pairs = random.Random(seed).sample(pairs, min(cases, len(pairs)))
    for name, place, value in pairs:
        _, words, usual = READERS[name]
        given = [places.get(word, word) for word in words]
        options = {key: places.get(text, text.replace("OUT", str(folder / "out"))) for key, text in usual.items()}
        if isinstance(place, int):
            given[place] = value
        else:
            options[place] = value
        flags = [_flag(key.replace("_", "-"), text) for key, text in options.items()]
        with patch.object(uvicorn.Server, "run", _close), contextlib.chdir(folder):
            yield f"{name} {place}={value[:30]}", command(*name.split(), *given, *flags, seconds=60)
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


def _close(server: object, sockets: list[socket.socket]) -> None:
    """In the place of serving until somebody interrupts it."""
    for each in sockets:
        each.close()


def _flag(name: str, value: str) -> str:
    return {"True": f"--{name}", "False": f"--no-{name}"}.get(value, f"--{name}={value}")
