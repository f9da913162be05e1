"""magnet demo."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from magnet.commands.terminal import read_options
from magnet.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from magnet.experiments.demo import Outcome

HELP = """Train softmax, triplet and Magnet on scikit-learn's digits with the same small network, and show the result.

Prints one table, and writes the run of each method, a picture of the three maps and a page to explore them. Nothing is
downloaded.

example:
  magnet demo --out demo
"""

METHODS = ("softmax", "triplet", "magnet")
REFRESHES = 5  # of Magnet that are kept for the page


@dataclass(frozen=True)
class DemoOptions:
    """Options of the demo."""

    out: Path = Path("demo")
    """Folder for the runs, the picture and the page; an earlier demo in it is replaced."""
    epochs: int = 40
    """Length of each training."""
    seeds: int = 3
    """Trainings of each method that the table is the mean of, each with a random pairing of the digits beside."""
    seed: int = 0
    """The first of the seeds; the same one gives the same demo."""
    quiet: bool = False
    """Plain lines instead of live bars."""


def main(arguments: Sequence[str]) -> None:
    """Run the demo."""
    options = read_options(DemoOptions, "demo", HELP, arguments)

    import torch
    from rich.console import Console

    from magnet.data import open_data
    from magnet.experiments.demo import map_of, measure
    from magnet.report.explorer.build import explore
    from magnet.report.maps import draw_maps
    from magnet.report.page import write_whole
    from magnet.training.config import TrainConfig
    from magnet.training.presets import with_preset

    torch.set_num_threads(1)  # the network is too small for two threads to be quicker than one
    console = Console()
    start = time.monotonic()
    console.print("Digits: 1,797 images of 8 x 8 pixels, 10 classes. Three methods, one network (64-128-32).\n")
    data = open_data("digits", seed=options.seed, validation=0.2)
    outcomes = {}
    for method in METHODS:
        config = replace(
            with_preset(TrainConfig(data="digits", method=method)),
            backbone="mlp", hidden=128, dim=32, epochs=options.epochs, learning_rate=0.03, clusters_per_class=8,
            clusters_per_batch=36, seed=options.seed, validation=0.2, evaluate=False, quiet=options.quiet,
            keep_refreshes=REFRESHES if method == "magnet" else 0,
        )  # fmt: skip
        outcomes[method] = measure(config, data, options.out / method, options.seeds, console)
        console.print(f"[dim]{method}: trained after {time.monotonic() - start:.0f} s[/]")
    _print_table(console, outcomes, options.seeds)
    with console.status("laying out the maps"):
        runs = {method: outcome.run for method, outcome in outcomes.items() if outcome.run is not None}
        if not runs:
            raise UserError("all methods diverged with their first seed: there is no run to draw; give another --seed")
        maps = [map_of(run, method) for method, run in runs.items()]
        picture = options.out / "maps.png"
        draw_maps(maps, data.classes, picture, title="Test digits after training with each method (t-SNE)")
        page = options.out / "explore.html"
        opened = list(runs.values())
        explorer = explore(opened, examples=len(data), seed=options.seed, say=lambda what: lambda done, total: None)
        write_whole(page, explorer.html())
    console.print(f"\nThe maps are in {picture}, the runs beside it. {time.monotonic() - start:.0f} s in all.")
    console.print(f"Explore them: open {page} in a browser.")
    console.print(f"Try: magnet evaluate {opened[-1].folder}")


def _print_table(console: "Console", outcomes: "dict[str, Outcome]", seeds: int) -> None:
    from rich.table import Table

    from magnet.experiments.dynamics import first_at, settled
    from magnet.experiments.outcome import DIVERGED, some_diverged

    def percent(errors: list[float | None]) -> str:
        known = [error for error in errors if error is not None]
        if not known:
            return DIVERGED
        return f"{sum(known) / len(known):.1%}" + some_diverged(len(errors) - len(known), len(errors))

    goal = settled(outcomes["triplet"].curve)
    ends = DIVERGED if goal is None else f"{goal:.1%}"
    table = Table(
        title=f"Errors on the 540 test digits, mean of {seeds} seed{'s' * (seeds > 1)}",
        caption="kNC: soft votes of the nearest clusters; soft kNN: of examples.\n"
        "Hidden digits: trained on digits merged in random pairs, kNC error\n"
        "on the digits themselves. Steps: until the validation error is where\n"
        f"that of triplet ends ({ends}).",
        caption_justify="left",
    )
    table.add_column("method")
    for name in ("kNC", "soft kNN", "hidden digits", "steps to triplet's error"):
        table.add_column(name, justify="right")
    for method, outcome in outcomes.items():
        steps = None if goal is None else first_at(outcome.curve, goal)
        reached = "not reached" if outcome.curve and goal is not None else DIVERGED
        table.add_row(
            method,
            percent(outcome.knc),
            percent(outcome.knn),
            percent(outcome.hidden),
            reached if steps is None else str(steps),
        )
    console.print()
    console.print(table)
