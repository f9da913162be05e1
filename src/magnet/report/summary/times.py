"""Where the time went: training, refresh, evaluation."""

from collections.abc import Sequence

from magnet.report.summary.canvas import PARTS, Figure, canvas
from magnet.report.summary.markup import Markup, table
from magnet.report.summary.run_names import named
from magnet.report.summary.stories import Story
from magnet.report.summary.words import duration
from magnet.report.text import plain

NAMES = {
    "training": "training steps",
    "embedding": "refresh: embedding",
    "refresh": "refresh: clustering",
    "validation": "evaluation: validation",
    "test": "evaluation: test part",
}


def spent(story: Story) -> dict[str, float]:
    """Seconds by what they were spent on; the test part is evaluated for the report."""
    tested = story.findings.seconds if story.findings else 0.0
    return {key: float(story.seconds.get(key, 0.0)) for key in NAMES if key != "test"} | {"test": tested}


def draw_times(stories: Sequence[Story]) -> Figure | None:
    """A bar for each run."""
    times = [spent(story) for story in stories]
    if not any(sum(time.values()) for time in times):
        return None
    caption = (
        "Seconds of wall-clock time. Refresh: the training set is embedded, then clustered. "
        "Evaluation: on the validation part while training, and on the test part for this report."
    )
    legend = [(name, {"color": shade, "linewidth": 6}) for name, shade in zip(NAMES.values(), PARTS, strict=True)]
    size = (7.2, 0.9 + 0.36 * len(stories))
    with canvas("time", "Time", caption, legend, size=size) as made:
        for row, time in enumerate(times):
            left = 0.0
            for (_, seconds), shade in zip(time.items(), PARTS, strict=True):
                made.axis.barh(row, seconds, 0.62, left=left, color=shade, linewidth=0)
                left += seconds
        made.axis.set_yticks(range(len(stories)), [plain(story.name, 28) for story in stories])
        made.axis.invert_yaxis()
        made.axis.grid(axis="y", visible=False)
        made.axis.xaxis.set_major_formatter("{x:g} s")
    return made.figure


def time_table(stories: Sequence[Story]) -> Markup:
    """The same in numbers."""
    rows = []
    for number, story in enumerate(stories):
        time = spent(story)
        pace = f"{1000 * time['training'] / story.step:.1f} ms" if story.step and time["training"] else "–"
        cells = [duration(seconds) if seconds else "–" for seconds in time.values()]
        rows.append([named(stories, number), *cells, duration(sum(time.values())), pace])
    head = ["run", *NAMES.values(), "in all", "a step"]
    return table(head, rows, numbers=range(1, len(head)))


def legend() -> list[tuple[str, str]]:
    """Names and colours of the parts, for the page."""
    return list(zip(NAMES.values(), PARTS, strict=True))
