"""The top of the page: which runs, how good, and what a reader must know before comparing them."""

from collections.abc import Sequence

from magnet.report.maps import COLOURS
from magnet.report.summary.markup import Markup, element, join, swatch
from magnet.report.summary.stories import Story
from magnet.report.summary.words import RULES, duration, listed, of_views, percent
from magnet.training.workbench import absolute


def cards(stories: Sequence[Story]) -> Markup:
    """A card for each run."""
    return element("div", *(_card(story, number) for number, story in enumerate(stories)), kind="cards")


def notices(stories: Sequence[Story]) -> Markup:
    """What stands in the way of trusting or comparing the numbers."""
    said = [f"{story.name}: {note}" for story in stories for note in story.notes]
    said += [
        f"{story.name} is not finished: it stands at step {story.step:,}. "
        f"Go on with magnet train --resume {story.folder}"
        for story in stories
        if not story.finished
    ]
    said += [f"{story.name} was not evaluated: {story.trouble}." for story in stories if story.trouble]
    if not same_data(stories):
        said.append(
            "These runs were trained on different data. Their curves stand side by side, but neither curves nor "
            "errors can be compared."
        )
    elif not comparable(stories):
        said.append(
            "These runs were tested on different examples of the same data (a test part split off by another seed, "
            "merged classes, or data that changed since). Differences of their errors are partly those of the examples."
        )
    return join(element("p", sentence, kind="notice") for sentence in said)


def same_data(stories: Sequence[Story]) -> bool:
    """Whether all runs name the same data."""
    return len({absolute(story.config.data) for story in stories}) == 1


def comparable(stories: Sequence[Story]) -> bool:
    """Whether all runs that were evaluated were so on the same examples."""
    return same_data(stories) and len({story.findings.examples for story in stories if story.findings}) <= 1


def title(stories: Sequence[Story]) -> str:
    """Of the window."""
    return f"Magnet report: {listed([story.name for story in stories[:4]])}{' and more' * (len(stories) > 4)}"


def _card(story: Story, number: int) -> Markup:
    lines: list[object] = [
        element("div", swatch(number, len(COLOURS)), story.name, kind="name"),
        element("div", story.config.method, " on ", story.config.data, kind="what"),
    ]
    if story.findings:
        found = story.findings.evaluation
        error = percent(found[found["rule"]]["error"])
        about = (
            f"error of {RULES[found['rule']]} on {found['n']:,} test examples{of_views([found])}, {found['checkpoint']}"
        )
        lines += [element("div", error, kind="figure-number"), element("div", about, kind="what")]
    else:
        lines += [element("div", "–", kind="figure-number"), element("div", "not evaluated", kind="what")]
    state = "finished" if story.finished else "unfinished"
    total = duration(sum(story.seconds.values())) if story.seconds else "time unknown"
    lines.append(element("div", f"{state}, {story.step:,} steps, {total}", kind="what"))
    return element("div", *lines, kind="card", style=f"--own: var(--run-{number % len(COLOURS)})")
