"""The time to a first model of photographs: a frozen trunk against training the whole network, side by side."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from magnet.errors import UserError
from magnet.experiments.lab import Lab
from magnet.experiments.outcome import Outcome, Table, mean_of, spread
from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.folder import FOLDER, last_progress
from magnet.training.presets import with_preset
from magnet.training.train import train
from magnet.training.workbench import complete

SMALL = 96  # pixels, at which training a whole network is bearable without a GPU
EPOCHS = 6


def run(lab: Lab) -> Outcome:
    """Train each way in turn, from nothing and with an empty cache; count processor seconds and test errors."""
    given = lab.configure("magnet")
    if lab.data.kind != "images":
        raise UserError(f"{given.data} holds vectors: a first model of photographs needs images")
    rows = {
        "frozen trunk": _settings(given, freeze=True),
        f"frozen trunk, {SMALL} pixels": replace(_settings(given, freeze=True), image_size=SMALL),
        f"whole network, {SMALL} pixels, {EPOCHS} epochs": _whole(given, "auto"),
        f"the same from a random last layer, {SMALL} pixels, {EPOCHS} epochs": _whole(given, "random"),
    }
    values: dict[str, Any] = {}
    for name, config in rows.items():
        found = []
        for seeded in lab.seeded(config):
            with tempfile.TemporaryDirectory() as folder, _empty_cache(Path(folder) / "cache"):
                found.append(_measure(lab, seeded, Path(folder) / "run"))
            lab.console.print(f"{name}: {found[-1]['error']:.1%} after {found[-1]['seconds']:.0f} s", highlight=False)
        values[name] = {key: [one[key] for one in found] for key in found[0]}
    table = Table(
        f"{lab.data.name}: error on the {len(lab.data.indices('test')):,} test examples, and how long it took",
        ["way", "pixels", "error, %", "processor seconds", "of these: features", "start", "training and refreshes"],
        [_row(name, several) for name, several in values.items()],
        f"{mean_of(lab.seeds).capitalize()}; one process, from decoding the first image to the last step, without "
        f"the test. {len(lab.data.indices('train')):,} training examples, {len(lab.data.classes):,} classes.",
    )
    return Outcome([table], values=values)


def _settings(given: TrainConfig, *, freeze: bool = False, start: Any = "auto") -> TrainConfig:
    """The settings that `magnet train` has by itself, for the data, network and seed that were given."""
    begin = TrainConfig(given.data, backbone=given.backbone, weights=given.weights, freeze=freeze, start=start)
    config = with_preset(begin)
    if config.preset != "pretrained":
        raise UserError(
            f"{given.data} has no pretrained network: give --backbone timm/NAME@pretrained or --weights FILE"
        )
    return replace(config, seed=given.seed, device=given.device, workers=0, evaluate=False)


def _whole(given: TrainConfig, start: str) -> TrainConfig:
    return replace(_settings(given, start=start), image_size=SMALL, epochs=EPOCHS)


def _measure(lab: Lab, config: TrainConfig, folder: Path) -> dict[str, Any]:
    config = complete(config, lab.data)
    data = lab.data.with_image_size(config.image_size, config.rescale)
    begun = time.process_time()
    train(replace(config, out=folder), data=data, silent=True)
    seconds = time.process_time() - begun
    parts = dict((last_progress(folder / FOLDER) or {}).get("seconds", {}))
    scale = seconds / (sum(parts.values()) or 1.0)  # they are of the clock, which others' work makes slower
    parts = {name: spent * scale for name, spent in parts.items()}
    error = evaluate(Run(folder, data=data))["knc"]["error"]
    shown = {name: parts.pop(name, 0.0) for name in ("features", "start")}
    return {"pixels": config.image_size, "error": error, "seconds": seconds, **shown, "training": sum(parts.values())}


def _row(name: str, several: dict[str, list[Any]]) -> list[str]:
    times = [several[key] for key in ("seconds", "features", "start", "training")]
    return [name, str(several["pixels"][0]), spread(several["error"]), *(f"{sum(t) / len(t):.0f}" for t in times)]


@contextmanager
def _empty_cache(folder: Path) -> Iterator[None]:
    """Features are looked for in a folder of their own meanwhile."""
    before = os.environ.get("MAGNET_CACHE")
    os.environ["MAGNET_CACHE"] = str(folder)
    try:
        yield
    finally:
        os.environ.pop("MAGNET_CACHE")
        if before is not None:
            os.environ["MAGNET_CACHE"] = before
