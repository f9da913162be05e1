"""One training step of Magnet against one of softmax: same network, same batch size, same loop, same process.

    python benchmarks/step_overhead.py

Blocks of steps of the two alternate, so that whatever else the machine does hits both. A step is all of it: drawing
from the cache, augmentation, forward, loss, backward, the optimiser, bookkeeping. Refreshes are not part of it.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from magnet.data import Dataset
from magnet.data.listing import Listing
from magnet.training.config import TrainConfig
from magnet.training.display import Display
from magnet.training.loop import Trainer
from magnet.training.train import _fabric
from magnet.training.workbench import complete, make_workbench


def image_data(count: int) -> Dataset:
    """Grey 28 px images of ten classes; what they show does not matter for the time."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 10
    images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    listing = Listing("noise", images, labels, [str(c) for c in range(10)], [str(i) for i in range(count)])
    return Dataset(listing, spec="noise")


def vector_data(count: int) -> Dataset:
    """1280-dimensional vectors of 37 classes."""
    rng = np.random.default_rng(0)
    return Dataset.from_arrays(rng.normal(size=(count, 1280)).astype(np.float32), np.arange(count) % 37)


def trainer(method: str, data: Dataset, backbone: str, folder: Path) -> Trainer:
    config = complete(
        TrainConfig(data="noise", method=method, backbone=backbone, out=folder, steps=10**6, workers=0), data
    )
    if data.kind == "images":
        data = data.with_image_size(config.image_size)
    bench = make_workbench(config, data=data)
    made = Trainer(bench, _fabric(config), Display("", silent=True), folder, resume=False)
    made.learner.train()
    made._boundary()
    return made


def block(made: Trainer, steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        made._step()
    return (time.perf_counter() - start) / steps


def compare(data: Dataset, backbone: str, steps: int, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        pair = {}
        for name in ("softmax", "magnet"):
            (Path(folder) / name).mkdir()
            pair[name] = trainer(name, data, backbone, Path(folder) / name)
        for made in pair.values():
            block(made, steps)
        ratios, times = [], {"softmax": [], "magnet": []}
        for _ in range(repeats):
            for name, made in pair.items():
                times[name].append(block(made, steps))
            ratios.append(times["magnet"][-1] / times["softmax"][-1])
    return {
        "softmax_ms": round(1e3 * statistics.median(times["softmax"]), 2),
        "magnet_ms": round(1e3 * statistics.median(times["magnet"]), 2),
        "ratio": round(statistics.median(ratios), 3),
        "lowest": round(min(ratios), 3),
        "highest": round(max(ratios), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    result = {
        "convnet, 28 px, batch 48": compare(image_data(3000), "convnet", 15, options.repeats),
        "mlp, 1280-d, batch 48": compare(vector_data(4000), "mlp", 100, options.repeats),
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
