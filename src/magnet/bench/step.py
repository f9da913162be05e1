"""One training step of Magnet against one of softmax: same network, same batch size, same loop, same process.

A step includes drawing, augmentation, forward, loss, backward, the optimiser and bookkeeping. Refreshes are measured
separately: the share of a refresh that is not spent on the network's forward passes.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from magnet.bench.measurement import Measurement, compare_times, duration, seconds
from magnet.data import Dataset, open_data
from magnet.data.listings import Listing
from magnet.index import ClusterIndex
from magnet.training.config import TrainConfig
from magnet.training.display import Display
from magnet.training.loop import Snapshot, Trainer
from magnet.training.refresh import embed, settle_batchnorm
from magnet.training.train import make_fabric
from magnet.training.workbench import complete, make_workbench


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """The two networks, then a refresh."""
    found = []
    settings = (
        ("convnet", "28 px images, batch 48", small_images(3000), 15, 1.05),
        ("mlp", "1280-d vectors, batch 48", vectors(4000), 60, 1.25),
    )
    for backbone, what, data, steps, bound in settings:
        progress(f"steps of the {backbone}")
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs = (trainer(method, data, backbone, Path(folder)) for method in ("magnet", "softmax"))
            timed = compare_times(ours._step, theirs._step, repeats=15, calls=steps)
        found.append(timed.measurement(backbone, what, "softmax", bound=bound))
    progress("a refresh of 60,000 images")
    return [*found, refresh()]


def refresh() -> Measurement:
    """Clustering, impostors and bookkeeping, as a share of a whole refresh of the convnet on 60,000 images."""
    folder = os.environ.get("MAGNET_FASHION_MNIST")
    data = open_data(f"fashion-mnist:{folder}") if folder else small_images(60_000)
    with tempfile.TemporaryDirectory() as home:
        made = trainer("magnet", data, "convnet", Path(home), start=False)
        bench, device = made.bench, made.fabric.device
        representations = []

        def forward() -> None:
            settle_batchnorm(bench, device, seed=0)
            representations.append(embed(made.learner, bench.train, bench.examples(device)))

        def rest() -> None:
            index = ClusterIndex.fit(representations[0], bench.labels, bench.config.clusters_per_class, seed=0)
            made._refresh(Snapshot(index))

        passes = seconds(forward)
        rest()
        others = sorted(seconds(rest) for _ in range(5))
    shares = [100 * other / (other + passes) for other in others]
    return Measurement.of(
        "refresh", f"all but the forward passes, {len(bench.train):,} images of 28 px, convnet", duration(others[2]),
        f"{duration(others[2] + passes)}, the whole refresh", shares, bound=3.0, unit="%",
        note="Fashion-MNIST" if folder else "random images with the classes' patterns; MAGNET_FASHION_MNIST=FOLDER"
        " takes the real ones",
    )  # fmt: skip


def trainer(method: str, data: Dataset, backbone: str, folder: Path, *, start: bool = True) -> Trainer:
    """The trainer of a run, ready for its next step."""
    home = folder / method
    home.mkdir()
    config = TrainConfig(data="random", method=method, backbone=backbone, out=home, steps=10**6, workers=0)
    config = complete(config, data)
    if data.kind == "images":
        data = data.with_image_size(config.image_size, config.rescale)
    made = Trainer(make_workbench(config, data=data), make_fabric(config), Display("", silent=True), home, resume=False)
    made.learner.train()
    if start:
        made.refresh()
    return made


def small_images(count: int) -> Dataset:
    """Grey 28 px images, a random pattern for each class and noise: ``count`` to train, one a class to test."""
    rng, classes = np.random.default_rng(0), 10
    names = [str(i) for i in range(count + classes)]
    labels = np.arange(len(names)) % classes
    patterns = rng.integers(0, 128, (classes, 28, 28), dtype=np.uint8)
    images = patterns[labels] + rng.integers(0, 128, (len(names), 28, 28), dtype=np.uint8)
    split = np.where(np.arange(len(names)) < count, 0, 2)
    return Dataset(Listing("random", images, labels, names[:classes], names, split=split), spec="random")


def vectors(count: int, classes: int = 37) -> Dataset:
    """1280-dimensional vectors around a point for each class."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % classes
    points = rng.normal(size=(classes, 1280))[labels] + 2 * rng.normal(size=(count, 1280))
    return Dataset.from_arrays(points.astype(np.float32), labels)
