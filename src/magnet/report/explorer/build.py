"""From runs to the page and its table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from magnet import __version__
from magnet.errors import UserError
from magnet.report.explorer.examples import Moment, Predictions, choose, kept_moments, lay_out_moments, moment, predict
from magnet.report.explorer.page_data import describe_data, describe_run
from magnet.report.html import page
from magnet.report.layout import Positions
from magnet.runs.run import Run
from magnet.training.folder import same_training_part

MOST_RUNS = 3
Say = Callable[[str], Callable[[int, int], None]]  # takes what begins, returns a function of (done, total)


@dataclass(frozen=True)
class Seen:
    """A run and what was found of it."""

    run: Run
    predictions: Predictions
    moments: list[Moment]  # the last is the evaluated checkpoint
    maps: list[Positions]


@dataclass(frozen=True)
class Explorer:
    """Runs on the same data, and the examples of it that are shown."""

    rows: np.ndarray  # (n,) ids into the data
    seen: list[Seen]
    data: dict[str, Any]  # what the page reads

    def html(self) -> str:
        """The page."""
        names = ", ".join(seen.run.config.method for seen in self.seen)
        return page("magnet.report.explorer", f"{self.data['name']} ({names})", self.data, [_plotly()])


def build_explorer(runs: Sequence[Run], *, examples: int, seed: int, say: Say) -> Explorer:
    """Look at runs.

    Args:
        runs: up to three, on the same data.
        examples: how many to show at most; of more, a sample.
        seed: of the sample and of the maps.
        say: see above.
    """
    check_same_data(runs)
    _plotly()  # said to be missing before the work, not after it
    data = runs[0].data
    rows = choose(data.labels.numpy(), data.split, examples, seed)
    seen = []
    for run in runs:
        say(f"{run.folder.name}: asking the run")
        predictions = predict(run, rows)
        labels = data.labels[torch.from_numpy(rows)]
        sigma = run.rule("knc").variance ** 0.5
        everything = torch.arange(len(rows))
        end = moment(run.step, everything, predictions.representations, labels, predictions.place, run.index, sigma)
        moments = [end]
        if same_training_part(run.folder, data):  # otherwise a kept refresh holds rows of other examples
            moments = [*kept_moments(run.folder, run.step, labels, predictions.place), end]
        say(f"{run.folder.name}: laying out {len(moments)} map{'s' * (len(moments) > 1)}")
        seen.append(Seen(run, predictions, moments, lay_out_moments(moments, seed=seed)))
    described = describe_data(data, rows, say("drawing thumbnails"))
    described["version"] = __version__
    described["runs"] = [describe_run(s.run, rows, s.predictions, s.moments, s.maps) for s in seen]
    return Explorer(rows, seen, described)


def check_same_data(runs: Sequence[Run]) -> None:
    """Raise a UserError unless all runs know the same examples by the same labels."""
    if not 1 <= len(runs) <= MOST_RUNS:
        raise UserError(f"{len(runs)} runs were given; one, two or three fit on a page")
    first = runs[0]
    for run in runs[1:]:
        what = next(
            (
                f"{name} {_short(mine)} and {_short(theirs)}"
                for name, mine, theirs in [
                    ("sets", first.data.name, run.data.name),
                    ("classes", first.data.classes, run.data.classes),
                    ("examples", first.data.names, run.data.names),
                    ("labels", first.data.labels.tolist(), run.data.labels.tolist()),
                    ("contents", _content(first), _content(run)),
                ]
                if mine != theirs
            ),
            None,
        )
        if what:
            raise UserError(
                f"{first.folder} and {run.folder} were trained on different data: their {what} differ. "
                "Runs side by side must be on the same data"
            )


def _content(run: Run) -> str:
    """A short mark of the examples themselves; none where copies of the same files would have different ones."""
    digest = run.data.digest
    return "" if digest.known_by == "file times" else digest.content[:12]


def _short(found: Any) -> str:
    if isinstance(found, str):
        return repr(found)
    return f"({len(found)}: {', '.join(map(str, found[:3]))}, ...)"


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UserError("the explorer needs plotly: pip install 'magnet-loss[explore]'") from error
    script: str = get_plotlyjs()
    return script
