"""What an experiment gives: tables, figures, and all of its numbers; and whether those agree with earlier ones.

Paired bootstrap intervals say how sure a difference between two methods is, over test examples and over seeds.

``python -m magnet.experiments.outcome docs/results.md`` writes the tables of ``docs/results/NAME.json`` anew between
the lines ``<!-- results NAME -->`` and ``<!-- end -->``; ``<!-- results NAME 1 3 -->`` takes the first and the third.
"""

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable

from magnet import __version__
from magnet.errors import UserError
from magnet.files import read_json, replacing

RESULTS = "results.json"  # in the folder of an experiment
PACKAGES = ("torch", "numpy", "scikit-learn", "openTSNE", "pytorch-metric-learning", "timm")
PAIRED = "In brackets: 95 % interval, paired bootstrap over test examples and repetitions; * where it excludes zero."
DIVERGED = "diverged"  # shown instead of the number of a run that diverged
_NAMES = {"semantic-triplet": "semantic triplet", "magnet": "Magnet", "nca": "NCA", "cluster-nca": "cluster-NCA",
          "ncm": "NCM", "ncmc": "NCMC"}  # fmt: skip
# not compared: they belong to the search, or are computed from the figures
_LEFT_OUT = ("settings", "trials", "attributes", "sizes", "curves", "shown", "difference", "relative", DIVERGED)
BLOCK = re.compile(r"(<!-- results (\S+?)((?: \d+)*) -->\n).*?(<!-- end -->)", re.DOTALL)
INSIDE = 0.95  # of the resampled differences


class Interval(NamedTuple):
    """A number and the interval that holds 95 % of its bootstrap draws."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether all of the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


def paired_interval(a: np.ndarray, b: np.ndarray, *, seed: int = 0, draws: int = 2000) -> Interval:
    """The difference mean(a) - mean(b).

    Args:
        a, b: (S, n) a value of each of n examples, such as whether it was classified wrongly, in S repetitions (seeds
            or random pairings). Examples and repetitions are drawn with replacement, the same for a and b.
        seed: of the bootstrap.
        draws: the number of bootstrap samples.

    >>> a, b = np.array([[0, 0, 1, 0] * 20]), np.array([[1, 0, 1, 0] * 20])
    >>> [round(float(x), 2) for x in paired_interval(a, b)]
    [-0.25, -0.35, -0.16]
    """
    return _interval(a, b, lambda x, y: x - y, seed, draws)


def relative_interval(a: np.ndarray, b: np.ndarray, *, seed: int = 0, draws: int = 2000) -> Interval:
    """The relative difference 1 - mean(a) / mean(b), 0 where the two are equal. Arguments as for `paired_interval`."""
    least = np.finfo(float).tiny
    return _interval(a, b, lambda x, y: np.where(x == y, 0.0, 1 - x / np.maximum(y, least)), seed, draws)


def in_both(a: Sequence[np.ndarray | None], b: Sequence[np.ndarray | None]) -> tuple[np.ndarray, np.ndarray] | None:
    """The repetitions (S, ...) of which both a and b have values, None where a run diverged; None if there are none."""
    pairs = [(x, y) for x, y in zip(a, b, strict=True) if x is not None and y is not None]
    if not pairs:
        return None
    return np.stack([x for x, _ in pairs]), np.stack([y for _, y in pairs])


def intervals(
    a: Sequence[np.ndarray | None], b: Sequence[np.ndarray | None]
) -> tuple[Interval | None, Interval | None]:
    """The difference and the relative difference over the repetitions that did not diverge in a or in b."""
    both = in_both(a, b)
    return (paired_interval(*both), relative_interval(*both)) if both else (None, None)


def means(repetitions: Sequence[np.ndarray | None]) -> list[float | None]:
    """The mean of the values (n,) of each repetition, such as an error; None for a run that diverged."""
    return [None if values is None else float(values.mean()) for values in repetitions]


def _interval(
    a: np.ndarray, b: np.ndarray, compare: Callable[[np.ndarray, np.ndarray], np.ndarray], seed: int, draws: int
) -> Interval:
    a, b = np.atleast_2d(np.asarray(a, float)), np.atleast_2d(np.asarray(b, float))
    if a.shape != b.shape or a.size == 0:
        raise ValueError(f"a and b must have one shape (S, n) and hold something; found {a.shape} and {b.shape}")
    rng = np.random.default_rng(seed)
    repetitions, examples = a.shape
    means = np.empty((draws, 2))
    for draw in range(draws):
        # How often each example is drawn; a product with these counts is quicker than indexing.
        weights = np.bincount(rng.integers(examples, size=examples), minlength=examples) / examples
        rows = rng.integers(repetitions, size=repetitions)
        means[draw] = (a[rows] @ weights).mean(), (b[rows] @ weights).mean()
    drawn = compare(means[:, 0], means[:, 1])
    low, high = np.quantile(drawn, [(1 - INSIDE) / 2, (1 + INSIDE) / 2])
    found = compare(np.array(a.mean()), np.array(b.mean()))
    return Interval(float(found), float(low), float(high))


@dataclass
class Table:
    """A table of text, printed on a terminal or as Markdown."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    caption: str = ""

    def rich(self) -> RichTable:
        """For a terminal."""
        table = RichTable(
            title=self.title,
            caption=self.caption or None,
            caption_justify="left",
            title_justify="left",
            box=SIMPLE_HEAD,  # and little room between columns, so that five of them fit 80 characters
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a page."""
        lines = [f"**{self.title}**", ""] if self.title else []
        lines += ["| " + " | ".join(self.columns) + " |", "|" + "---|" * len(self.columns)]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in self.rows]
        return "\n".join([*lines, *(["", self.caption] if self.caption else [])])


@dataclass
class Outcome:
    """The result of one experiment; ``values`` is ready for JSON and holds every number of the tables."""

    tables: list[Table]
    figures: list[Path] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path, about: dict[str, Any]) -> Path:
        """Write results.json, with what is needed to repeat it; figures by their names."""
        content = {
            **about,
            "versions": versions(),
            "machine": machine(),
            "tables": [vars(table) for table in self.tables],
            "figures": [figure.name for figure in self.figures],
            "values": self.values,
        }
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(folder / RESULTS) as draft:
            draft.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        return folder / RESULTS


def versions() -> dict[str, str]:
    """Versions of the packages that a result may depend on."""
    found = {"python": platform.python_version(), "magnet": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """The system that the numbers were computed on, without anything that identifies the machine or its owner."""
    return {"system": platform.system(), "architecture": platform.machine(), "processors": os.cpu_count()}


def pretty(row: str) -> str:
    """The name of a method as it is printed, with the settings of its own that the row has in brackets."""
    if row.startswith("pml/"):
        return row.removeprefix("pml/").removesuffix("Loss")
    method, bracket, own = row.partition("(")
    own = ", ".join(word.strip() for word in own.replace("=", " ").replace("_", " ").split(","))
    return _NAMES.get(method, method) + (f" ({own}" if bracket else "")


def seeds(count: int) -> str:
    """The number of seeds, in words."""
    return f"{count} seeds" if count > 1 else "one seed"


def mean_of(count: int) -> str:
    """What `spread` shows, in words, for a caption."""
    return f"mean ± standard deviation of {count} seeds" if count > 1 else "one seed"


def spread(fractions: Sequence[float | None]) -> str:
    """Mean ± standard deviation of fractions, in percent; None stands for a run that diverged."""
    values = 100 * np.array([fraction for fraction in fractions if fraction is not None], float)
    if not len(values):
        return DIVERGED
    text = f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(values) > 1 else f"{values.mean():.1f}"
    return text + some_diverged(len(fractions) - len(values), len(fractions))


def some_diverged(diverged: int, runs: int) -> str:
    """The note behind a mean that leaves out diverged runs; "" if there are none."""
    return f" ({diverged} of {runs} {DIVERGED})" if diverged else ""


def difference(interval: Interval | None) -> str:
    """A difference of fractions in percentage points, with its interval; None where one side diverged."""
    if interval is None:
        return ""
    mean, low, high = (100 * value for value in interval)
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]{'*' * interval.excludes_zero}"


def share(interval: Interval | None) -> str:
    """A relative difference in percent, with its interval; None where one side diverged."""
    if interval is None:
        return ""
    mean, low, high = (100 * value for value in interval)
    return f"{mean:.0f} % [{low:.0f}, {high:.0f}]{'*' * interval.excludes_zero}"


def read_values(path: Path, experiment: str) -> dict[str, Any]:
    """The values of a results file of ``experiment``."""
    try:
        content = read_json(path)
        found: str = content["experiment"]
        values: dict[str, Any] = content["values"]
        dict(_figures(values))  # fails here, before the work, if they cannot be compared
    except OSError as error:
        raise UserError(f"--against must be the results.json of an experiment; {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"--against must be the results.json of an experiment; {path} is something else") from None
    if found != experiment:
        raise UserError(f"--against must be results of {experiment}; {path} holds results of {found}")
    return values


def agreement(before: dict[str, Any], now: dict[str, Any]) -> Table:
    """A table of the figures that differ between two results: mean ± standard deviation of the two do not overlap.

    The title says how many of all figures agree. Single repetitions have no deviation, and are not compared.
    """
    earlier = dict(_figures(before))
    both = [(name, earlier[name], new) for name, new in _figures(now) if name in earlier]
    apart = [[name, _cell(old), _cell(new)] for name, old, new in both if not _overlap(_extent(old), _extent(new))]
    title = f"{len(both) - len(apart)} of {len(both)} figures agree with the earlier ones (mean ± deviation overlap)"
    return Table(title + (", these do not:" if apart else ""), ["figure", "before", "now"], apart)


def _figures(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the repetitions of each figure; NaN stands for a missing value."""
    for key, value in values.items():
        name = f"{path} / {key}" if path else str(key)
        if key in _LEFT_OUT or "magnet_" in key:
            continue
        if isinstance(value, dict):
            yield from _figures(value, name)
        elif isinstance(value, list) and len(value) > 1:
            repetitions = np.asarray(value, float)  # shape (repetitions,) or (repetitions, columns)
            if repetitions.ndim == 1:
                yield name, repetitions
            else:
                yield from ((f"{name} / {column + 1}", repetitions[:, column]) for column in range(len(value[0])))


def _extent(repetitions: np.ndarray) -> tuple[float, float]:
    """Mean minus and plus the standard deviation; lowest and highest where some are missing."""
    there = repetitions[~np.isnan(repetitions)]
    if not len(there):
        return np.inf, np.inf
    if len(there) < len(repetitions):
        return float(there.min()), float(there.max())
    return float(there.mean() - there.std(ddof=1)), float(there.mean() + there.std(ddof=1))


def _overlap(first: tuple[float, float], second: tuple[float, float]) -> bool:
    return first[0] <= second[1] and second[0] <= first[1]


def _cell(repetitions: np.ndarray) -> str:
    there = repetitions[~np.isnan(repetitions)]
    if len(there) < len(repetitions):
        return f"{len(there)} of {len(repetitions)} there" + "".join(f", {value:.3g}" for value in there)
    return f"{there.mean():.3g} ± {there.std(ddof=1):.2g}"


def fill_page(text: str, folder: Path) -> str:
    """The page with the tables of the results files in ``folder``."""

    def tables(block: re.Match[str]) -> str:
        content = read_json(folder / f"{block[2]}.json")
        found = [Table(**table).markdown() for table in content["tables"]]
        chosen = [found[int(number) - 1] for number in block[3].split()] or found
        return block[1] + "\n" + "\n\n".join(chosen) + "\n\n" + block[4]

    return BLOCK.sub(tables, text)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(fill_page(page.read_text(encoding="utf-8"), page.with_suffix("")), encoding="utf-8")
