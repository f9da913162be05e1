"""From runs to the page and its table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from magnet import __version__
from magnet.errors import UserError
from magnet.report.explorer.examples import Contrast, Predictions, choose, contrast, predict
from magnet.report.explorer.looks import looks
from magnet.report.explorer.page_data import (
    describe_data,
    describe_errors,
    describe_run,
    encode_text,
    find_originals,
    put_beside,
)
from magnet.report.explorer.snapshots import Moment, evaluated_moment, kept_moments, lay_out_moments
from magnet.report.html import Folder, page, write_whole
from magnet.report.layout import MOST, Positions, Report, place_between
from magnet.runs.run import Run
from magnet.training.folder import same_training_part

MOST_RUNS = 3
PAGES = (".html", ".htm")
MOST_CROWD = 1_000_000  # training examples that are not shown but placed; each takes 8 bytes of the page
CLOSELY = 200  # doubtful examples of a run whose company also gets large pictures
EXEMPLARS = 28  # of each cluster, as many as its panel shows
Say = Callable[[str], Callable[[int, int], None]]  # takes what begins, returns a function of (done, total)


@dataclass(frozen=True)
class Seen:
    """A run and what was found of it."""

    run: Run
    predictions: Predictions
    moments: list[Moment]  # in the order of their steps; one is the evaluated checkpoint
    maps: list[Positions]
    doubtful: Contrast
    crowd: tuple[np.ndarray, np.ndarray] | None = None  # training examples that are not shown: places (m, 2), classes

    @property
    def end(self) -> tuple[Moment, Positions]:
        """The evaluated checkpoint and its map."""
        return next(pair for pair in zip(self.moments, self.maps, strict=True) if pair[0].evaluated)


class Written(NamedTuple):
    """A page that was written."""

    page: Path
    left_out: str  # in words, what one file had no room for; nothing where all is there


@dataclass(frozen=True)
class Explorer:
    """Runs on the same data, and the examples of it that are shown."""

    rows: np.ndarray  # (n,) ids into the data
    seen: list[Seen]
    data: dict[str, Any]  # what the page reads, but for the looks of the examples
    say: Say

    def write(self, out: Path) -> Written:
        """Write the page: one file that ends in .html, or a folder with pictures and data beside its ``index.html``.

        In a folder every example has a large picture or all its features (up to `looks.FEATURE_BYTES`); in one file,
        as many have as fit (`looks.LARGE_BYTES`, `looks.FEATURES`).
        """
        folder = None if out.suffix.lower() in PAGES else Folder(out)
        file, data = out / "index.html" if folder else out, self.seen[0].run.data
        first = looked_at_most(self.seen, len(self.rows))
        pictures = looks(data, self.rows, first, self.say("drawing pictures"), folder.keep if folder else None)
        everything = {**self.data, "pictures": pictures, "originals": find_originals(data, file)}
        title = f"{data.name} ({', '.join(seen.run.config.method for seen in self.seen)})"
        if folder is None:
            write_whole(file, page("magnet.report.explorer", title, everything))
            return Written(file, left_out(pictures, len(self.rows)))
        everything, scripts = put_beside({**everything, "names": encode_text(everything["names"])}, folder.keep)
        folder.keep(file.name, page("magnet.report.explorer", title, everything, beside=True, scripts=scripts))
        folder.finish()
        return Written(file, "")


def left_out(pictures: dict[str, Any], count: int) -> str:
    """What of the looks of ``count`` examples one file had no room for, in words."""
    large = pictures.get("large")
    if large and len(large["sheets"]) < count:
        return f"{count - len(large['sheets'])} of them have a small picture only"
    if pictures["kind"] == "features" and len(pictures["columns"]) < pictures["width"]:
        return f"{len(pictures['columns'])} of {pictures['width']} features are on the page"
    return ""


def build_explorer(runs: Sequence[Run], *, examples: int, seed: int, say: Say) -> Explorer:
    """Look at runs.

    Args:
        runs: up to three, on the same data.
        examples: how many to show at most; of more, a sample.
        seed: of the sample and of the maps.
        say: see above.
    """
    check_same_data(runs)
    data = runs[0].data
    rows = choose(data.labels.numpy(), data.split, examples, seed)
    labels = data.labels[torch.from_numpy(rows)]
    seen = []
    for run in runs:
        name = run.folder.resolve().name
        run.report = say(f"{name}: asking the run")
        predictions = predict(run, rows)
        moments = [evaluated_moment(run, predictions, labels)]
        if same_training_part(run.folder, data):  # otherwise a kept refresh holds rows of other examples
            moments = sorted([*kept_moments(run, labels, predictions.place), *moments], key=lambda m: m.step)
        report = say(f"{name}: laying out {len(moments)} map{'s' * (len(moments) > 1)}")
        maps = lay_out_moments(moments, seed=seed, report=report)
        found = Seen(run, predictions, moments, maps, contrast(predictions, labels))
        seen.append(replace(found, crowd=place_crowd(found, say(f"{name}: placing what is not shown"))))
    described = describe_data(data, rows)
    described["version"] = __version__
    described["runs"] = []
    for s in seen:
        name = s.run.folder.resolve().name
        s.run.report = say(f"{name}: errors on the test part")
        errors, report = describe_errors(s.run), say(f"{name}: nearest neighbours")
        described["runs"].append(
            describe_run(s.run, rows, s.moments, s.maps, s.predictions.doubts, s.doubtful, errors, s.crowd, report)
        )
    return Explorer(rows, seen, described, say)


def place_crowd(seen: Seen, report: Report) -> tuple[np.ndarray, np.ndarray] | None:
    """Where the training examples that are not shown would lie, and their classes; None where all are shown.

    For the densities of a map, and the small dots that are seen close up. Of more than MOST_CROWD, a sample.
    """
    moment, (positions, _) = seen.end
    absent = torch.ones(len(seen.run.labels), dtype=torch.bool)
    absent[seen.predictions.place[seen.predictions.place >= 0]] = False
    hidden = absent.nonzero()[:, 0]
    if not len(hidden):
        return None
    if len(hidden) > MOST_CROWD:
        hidden = hidden[torch.randperm(len(hidden), generator=torch.Generator().manual_seed(0))[:MOST_CROWD]]
    known = slice(MOST)  # the shown ones are in random order: of more, a sample places the others as well
    places = place_between(seen.run.references[hidden], moment.representations[known], positions[known], report)
    return places, seen.run.labels[hidden].numpy()


def looked_at_most(seen: Sequence[Seen], count: int) -> list[int]:
    """All ``count`` shown examples, those first that a person will look at closely.

    Doubtful examples with the ones that they are shown beside, then the exemplars of each cluster, the nearest of all
    clusters before the second nearest, then the rest.
    """
    order: dict[int, None] = {}
    for s in seen:
        rows = torch.cat([s.doubtful.ids[:, None], s.doubtful.of_own, s.doubtful.of_other], dim=1)[:CLOSELY]
        order |= dict.fromkeys(rows.flatten().tolist())
    for s in seen:
        end, _ = s.end
        by_distance = end.own.argsort()
        clusters = end.clusters[by_distance]
        nearest_first = clusters.argsort(stable=True)  # by cluster, in it by distance
        sizes = torch.unique_consecutive(clusters[nearest_first], return_counts=True)[1]
        ranks = torch.cat([torch.arange(int(size)) for size in sizes])
        chosen = by_distance[nearest_first][ranks < EXEMPLARS]
        order |= dict.fromkeys(chosen[ranks[ranks < EXEMPLARS].argsort(stable=True)].tolist())
    order |= dict.fromkeys(range(count))
    return [place for place in order if place >= 0]


def check_same_data(runs: Sequence[Run]) -> None:
    """Raise a UserError unless all runs know the same examples by the same labels."""
    if not 1 <= len(runs) <= MOST_RUNS:
        raise UserError(f"{len(runs)} runs were given; one, two or three fit on a page")
    first = runs[0]
    for run in runs[1:]:
        mine, theirs = first.data, run.data
        compared = {
            "sets": (mine.name, theirs.name),
            "classes": (mine.classes, theirs.classes),
            "examples": (mine.digest.names, theirs.digest.names),
            "labels": (mine.labels.tolist(), theirs.labels.tolist()),
            "contents": (_content(first), _content(run)),
        }
        what = next((name for name, (one, other) in compared.items() if one != other), None)
        if what:
            told = (
                f": {_short(compared[what][0])} and {_short(compared[what][1])}" if what in ("sets", "classes") else ""
            )
            raise UserError(
                f"{first.folder} and {run.folder} were trained on different data: their {what} differ{told}. "
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
