"""Numbers and names as people read them."""

from collections.abc import Iterable, Sequence
from typing import Any

RULES = {"knc": "kNC", "knn": "soft kNN", "head": "own head"}


def percent(share: float | None, digits: int = 1) -> str:
    """A fraction."""
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def duration(seconds: float) -> str:
    """A time that may be short or long."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def of_views(evaluations: Iterable[dict[str, Any]]) -> str:
    """Which views of images errors are of, to follow a comma; nothing where there is one view only, as of vectors."""
    counts = sorted({found["views"] for found in evaluations})
    return "" if counts == [1] else f", mean of {listed([str(count) for count in counts])} test views of each image"
