"""Short runs for the tests of the engine: their settings, and what they leave behind."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from magnet.training.config import TrainConfig
from magnet.training.folder import FOLDER, open_checkpoint, read_journal
from magnet.training.loop import Trainer
from magnet.training.train import train

SMALL = {"hidden": 16, "dim": 8, "clusters_per_class": 2, "clusters_per_batch": 6, "learning_rate": 0.01}
TIMES = ("seconds",)


def settings(out: Path, data: str, **changes: Any) -> TrainConfig:
    """A small run: 60 vectors in 3 classes, say, make 3 steps an epoch."""
    return TrainConfig(
        **{"data": data, "out": out, "epochs": 3, "evaluate": False, "device": "cpu", **SMALL, **changes}
    )


def run(out: Path, data: str, **changes: Any) -> Path:
    return train(settings(out, data, **changes), silent=True)


def stop_at(monkeypatch: pytest.MonkeyPatch, *steps: int) -> None:
    """Interrupt runs when they come to one of the steps, each once."""
    wanted, step = list(steps), Trainer._step

    def stopping(trainer: Trainer) -> None:
        step(trainer)
        if trainer.step in wanted:
            wanted.remove(trainer.step)
            trainer._interrupt(2, None)

    monkeypatch.setattr(Trainer, "_step", stopping)


def write_vectors(path: Path, count: int = 90, classes: int = 3, **more: Any) -> str:
    """Classes of three blobs each, overlapping a little."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % classes
    centres = rng.normal(size=(classes, 3, 6))
    vectors = centres[labels, np.arange(count) % 7 % 3] * 2 + rng.normal(size=(count, 6))
    np.savez(path, X=vectors.astype(np.float32), y=labels, **more)
    return str(path)


def write_images(folder: Path, per_class: int = 16) -> str:
    """Three classes of noisy stripes, 12 pixels wide."""
    rng = np.random.default_rng(1)
    for c, name in enumerate(("rows", "columns", "plain")):
        (folder / name).mkdir(parents=True)
        for i in range(per_class):
            pixels = rng.integers(0, 120, (12, 12, 3))
            stripes = np.arange(12)[:, None] if c == 0 else np.arange(12)[None, :]
            pixels += np.where((stripes % 4 < 2) & (c < 2), 120, 0)[..., None]
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i}.png")
    return str(folder)


def weights(folder: Path, which: str = "last") -> dict[str, Tensor]:
    return load_file(open_checkpoint(folder / FOLDER, which).path / "learner.safetensors")


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def records(folder: Path, kind: str = "") -> list[dict[str, Any]]:
    """The journal without its times."""
    found = [{k: v for k, v in r.items() if k not in TIMES} for r in read_journal(folder)]
    return [record for record in found if kind in ("", record["kind"])]


def left_behind(folder: Path) -> dict[str, Any]:
    """All that a run ends with and that must not depend on how it got there: every file of its last checkpoint."""
    last = open_checkpoint(folder / FOLDER, "last").path
    state: dict[str, Any] = {"checkpoint": last.name, "journal": records(folder)}
    for path in sorted(last.iterdir()):
        if path.suffix == ".safetensors":
            state |= {f"{path.name}/{name}": (t.dtype, t.tolist()) for name, t in load_file(path).items()}
        else:
            values = json.loads(path.read_text())
            values["progress"] = {k: v for k, v in values["progress"].items() if k not in TIMES}
            state |= {f"{path.name}/{k}": v for k, v in values.items() if k != "sha256"}
    return state


def differences(one: Path, other: Path) -> list[str]:
    """What two runs ended with differently; empty if nothing."""
    a, b = left_behind(one), left_behind(other)
    return [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]


def start(*words: str, module: str = "magnet", start_new_session: bool = False) -> subprocess.Popen[str]:
    """``python -m magnet ...`` as a process of its own, on one thread, with the tests' helpers at hand."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        env={**os.environ, **own}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=start_new_session,
    )  # fmt: skip


def flags(config: TrainConfig) -> list[str]:
    """A configuration as words of the command line, values that are not set left out."""
    words: list[str] = []
    for name, value in config.to_dict().items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return words
