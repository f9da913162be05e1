"""magnet evaluate."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console

from magnet.commands.terminal import RunFolder, open_run, read_options, show_evaluation
from magnet.data.sources import find_source
from magnet.errors import UserError
from magnet.training.config import check_run

HELP = """Errors of a run on the test part of its own data, or on other data.

Other data must be of the same kind; its classes are matched with those of the run by name. Without a test part of its
own, the same share is split off as in training: give --part all to evaluate all of it.

examples:
  magnet evaluate runs/photos
  magnet evaluate runs/photos --data more-photos/ --part all
  magnet evaluate runs/photos --json | jq .knc.error
"""


@dataclass(frozen=True)
class Evaluate:
    """The options of `magnet evaluate`."""

    run: RunFolder
    data: str = ""
    """Other data than the run's own, written as for `magnet train`."""
    label: str = ""
    """The column of the labels in the other data (default: that of the run)."""
    part: Literal["train", "validation", "test", "all"] = "test"
    """Which part of the data."""
    checkpoint: Literal["best", "last"] = "best"
    """best: by validation, or the last where there was none."""
    test_draws: int = 0
    """Augmented views to average for each image (0: as many as the run says; 1: the plain view)."""
    json: bool = False
    """Print JSON, errors as fractions."""


def main(arguments: Sequence[str]) -> None:
    """Evaluate a run and show the result."""
    options = read_options(Evaluate, "evaluate", HELP, arguments)
    check_run(options.run)
    if options.data:
        find_source(options.data, label=options.label)
    elif options.label:
        raise UserError("--label names a column of other data: give --data too")

    from magnet.runs.evaluate import evaluate, open_like

    own = not options.data
    with open_run(options.run, which=options.checkpoint, test_draws=options.test_draws, need_data=own) as run:
        other = open_like(run, options.data, options.label) if options.data else None
        result = evaluate(run, other, options.part)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show_evaluation(result, Console(highlight=False))
