"""Test errors of methods on feature vectors: the defaults of `magnet train`, several seeds, one table.

    python benchmarks/vector_errors.py features/pets.npz features/cub.npz:fine-grained --seeds 3

Each argument is a file for --data, perhaps with a preset after a colon. Every method has the same network, batch size,
number of steps and learning rate.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from magnet.training.config import TrainConfig, with_preset
from magnet.training.train import train

RULES = ("head", "knc", "knn")


def errors(data: str, preset: str, method: str, seed: int) -> dict[str, float]:
    """Error under each rule, in percent, and the seconds of the training."""
    with tempfile.TemporaryDirectory() as folder:
        config = with_preset(TrainConfig(data=data, method=method, preset=preset))
        start = time.monotonic()
        run = train(replace(config, seed=seed, out=Path(folder) / "run", evaluate=False), silent=True)
        seconds = time.monotonic() - start
        found = evaluate(Run(run, which="last"))
    return {rule: 100 * found[rule]["error"] for rule in RULES if rule in found} | {"seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--methods", nargs="+", default=["softmax", "triplet", "magnet"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write the single results here, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    print("| data | preset | method | own head | kNC | soft kNN | seconds |\n|---|---|---|---|---|---|---|")
    for word in options.data:
        data, _, preset = word.partition(":")
        preset = preset or "auto"
        for method in options.methods:
            runs = [errors(data, preset, method, seed) for seed in range(options.seeds)]
            results += [{"data": Path(data).stem, "preset": preset, "method": method, "seed": s} | r
                        for s, r in enumerate(runs)]  # fmt: skip
            cells = []
            for rule in RULES:
                values = [run[rule] for run in runs if rule in run]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                cells.append(f"{statistics.mean(values):.1f} ± {spread:.1f}" if values else "")
            seconds = statistics.mean(run["seconds"] for run in runs)
            print(f"| {Path(data).stem} | {preset} | {method} | {' | '.join(cells)} | {seconds:.0f} |", flush=True)
            if options.out:
                options.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
