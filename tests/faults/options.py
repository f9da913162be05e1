"""Every option of `magnet train`, with values that make no sense."""

import dataclasses
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

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
        outcome = command("train", *words, "--quiet", "--no-evaluate", seconds=30)
        if outcome.kind == HANG and name in LONG:
            outcome = Outcome("said", "a long training")
        yield f"--{name}={value}", outcome
        shutil.rmtree(out, ignore_errors=True)
        shutil.rmtree(Path(value) if name == "out" and value in VALUES[:10] and value else out, ignore_errors=True)
