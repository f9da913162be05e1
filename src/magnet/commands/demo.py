"""magnet demo."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from magnet.commands.terminal import read_options, say_notes
from magnet.errors import UserError

HELP = """Train softmax, triplet and Magnet on scikit-learn's digits from the same start, and show the result.

Prints one table, and writes the run of each method, a picture of the three maps and a page to explore them (with the
extras plots and explore installed). Nothing is downloaded.

example:
  magnet demo --out demo
"""


@dataclass(frozen=True)
class DemoOptions:
    """Options of the demo."""

    out: Path = Path("demo")
    """Folder for the runs, the picture and the page; an earlier demo in it is replaced."""
    epochs: int = 0
    """Length of each training (0: the default of `magnet train`)."""
    seeds: int = 3
    """Trainings of each method that the table is the mean of, each with a random pairing of the digits beside."""
    seed: int = 0
    """The first of the seeds; the same one gives the same demo."""
    quiet: bool = False
    """Plain lines instead of live bars."""


def main(arguments: Sequence[str]) -> None:
    """Run the demo."""
    options = read_options(DemoOptions, "demo", HELP, arguments)
    if options.out.is_file():
        raise UserError(f"--out {options.out} is a file: give a folder")

    import torch
    from rich.console import Console

    from magnet.experiments import demo
    from magnet.experiments.lab import Lab

    torch.set_num_threads(1)  # the network is too small for two threads to be quicker than one
    console = Console()
    start = time.monotonic()
    console.print("Digits: 1,797 images of 8 x 8 pixels, 10 classes. Three methods, one linear map, one start.\n")
    lab = Lab(
        lambda method: demo.settings(method, epochs=options.epochs, seed=options.seed, quiet=options.quiet),
        options.out, methods=demo.METHODS, seeds=options.seeds, console=console,
    )  # fmt: skip
    missing = [name for name in ("matplotlib", "openTSNE") if find_spec(name) is None]
    outcome = demo.run(lab, pictures=not missing)
    console.print()
    console.print(outcome.tables[0].rich())
    runs = [found["run"] for found in outcome.values.values() if found["run"]]
    console.print(f"\nThe runs are in {options.out}. {time.monotonic() - start:.0f} s in all.")
    if missing:
        say_notes([f"no pictures without {', '.join(missing)}: pip install 'magnet-loss[plots,explore]'"])
    else:
        picture, page = outcome.figures
        console.print(f"The maps are in {picture}. Explore them: open {page} in a browser.")
    console.print(f"Try: magnet evaluate {runs[-1]}")
