"""Trainings that diverge or collapse: each ends in one clear line, or says what is wrong and goes on."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from faults.outcomes import SAME, SILENT, Outcome, command
from training.short_runs import write_vectors

METHODS = ("magnet", "softmax", "triplet", "semantic-triplet", "contrastive", "nca", "cluster-nca", "ncm", "ncmc")
RATES = ("1e3", "1e6")


def diverging(folder: Path, methods: tuple[str, ...] = METHODS) -> Iterator[tuple[str, Outcome]]:
    """Rates that are far too high, for every method, with and without clipping, also in the last step."""
    folder.mkdir(parents=True, exist_ok=True)
    data = write_vectors(folder / "x.npz")
    for method in methods:
        for rate in RATES:
            for more in ([], ["--clip", "1"], ["--steps", "1"], ["--precision", "bf16-mixed"]):
                out = folder / "run"
                words = ["--data", data, "--method", method, "--preset", "paper/default", "--backbone", "mlp"]
                words += ["--hidden", 8, "--dim", 4, "--steps", 12, "--learning-rate", rate, "--out", out, "--quiet"]
                yield f"{method}, rate {rate} {' '.join(more)}", command("train", *words, "--no-evaluate", *more)
                shutil.rmtree(out, ignore_errors=True)


def constant(folder: Path) -> Iterator[tuple[str, Outcome]]:
    """Inputs that say nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    cases = {
        "all rows the same": np.ones((60, 4), np.float32),
        "two points for three classes": np.ones((60, 4), np.float32) * (y[:, None] == 0),
        "one column that varies": np.r_[[np.arange(60.0)], np.zeros((3, 60))].T,
        "noise": rng.normal(size=(60, 4)),
        "tiny": rng.normal(size=(60, 4)).astype(np.float32) * 1e-20,
        "huge": rng.normal(size=(60, 4)).astype(np.float32) * 1e20,
    }
    for name, X in cases.items():
        np.savez(folder / "x.npz", X=X, y=y)
        for backbone in ("linear", "mlp"):
            for preset in ("auto", "paper/default"):
                words = ["--data", folder / "x.npz", "--preset", preset, "--backbone", backbone, "--epochs", 2]
                words += ["--out", folder / "run", "--quiet", "--no-evaluate"]
                outcome = command("train", *words)
                if outcome.kind == SAME and name == "all rows the same":
                    outcome = Outcome(SILENT, "trained on a constant")
                yield f"{name}, {backbone}, {preset}", outcome
                shutil.rmtree(folder / "run", ignore_errors=True)
