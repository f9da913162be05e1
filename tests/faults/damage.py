"""Files of a run, cut short, with bits flipped, emptied or deleted; and every command that reads them."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from faults.outcomes import Outcome, command, printed
from magnet.files import remove_drafts
from magnet.training.config import TrainConfig
from magnet.training.train import train
from training.short_runs import SMALL, write_vectors

KINDS = ("cut", "flip", "empty", "delete", "garbage", "zeros")


def make_run(folder: Path) -> Path:
    """A small run with validation and kept refreshes, whose caches are there."""
    data = write_vectors(folder / "x.npz")
    np.save(folder / "rows.npy", np.load(data)["X"][:4])
    config = TrainConfig(
        data=data, out=folder / "run", epochs=3, validation=0.2, keep_refreshes=2, evaluate=False, quiet=True,
        device="cpu", **SMALL,
    )  # fmt: skip
    train(config, silent=True)
    printed("evaluate", folder / "run", "--json")
    printed("export", folder / "run", "--to", folder / "bundle")
    return folder / "run"


def damage(path: Path, kind: str, chance: random.Random) -> None:
    """Do to a file what disks, killed copies and people do."""
    content = path.read_bytes()
    if kind == "delete":
        path.unlink()
        return
    if kind == "cut":
        content = content[: chance.randrange(len(content) or 1)]
    elif kind == "flip":
        place = chance.randrange(len(content) or 1)
        content = content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
    elif kind == "empty":
        content = b""
    elif kind == "garbage":
        content = chance.randbytes(max(8, len(content)))
    else:  # a block of zeros, as a disk without its last writes has it
        place = chance.randrange(len(content) or 1)
        content = content[:place] + bytes(len(content[place : place + 512])) + content[place + 512 :]
    path.write_bytes(content)


def commands(run: Path, scratch: Path) -> dict[str, list[object]]:
    rows = run.parent / "rows.npy"
    return {
        "evaluate": ["evaluate", run, "--json"],
        "classify": ["classify", run, rows, "--json"],
        "search": ["search", run, rows, "--json"],
        "embed": ["embed", run, rows, "--out", scratch / "e.npz", "--force"],
    }


def damaged_runs(run: Path, scratch: Path, cases: int, seed: int) -> Iterator[tuple[str, Outcome]]:
    """So many cases, each of one damaged file and one command: what was done, and the outcome."""
    chance = random.Random(seed)
    scratch.mkdir(parents=True, exist_ok=True)
    names = sorted(path.relative_to(run) for path in run.rglob("*") if path.is_file() and path.name != ".lock")
    asked = commands(run, scratch)
    expected = {name: printed(*words) for name, words in asked.items()}
    copy = scratch / "copy"
    for _ in range(cases):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(run, copy)
        name, kind, which = chance.choice(names), chance.choice(KINDS), chance.choice(sorted(asked))
        before = (copy / name).read_bytes()
        damage(copy / name, kind, chance)
        words = [copy if word == run else word for word in asked[which]]
        unchanged = (copy / name).is_file() and (copy / name).read_bytes() == before
        same = expected[which].replace(str(run), str(copy))
        if not unchanged:
            yield f"{kind} {name}, {which}", command(*words, expected=same)
    remove_drafts(scratch)
