"""Measuring a run for its report: errors, confusions, impostors and attribute precision on the test part."""

import hashlib
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from magnet.data import Dataset
from magnet.data.attributes import Attributes
from magnet.errors import UserError
from magnet.evaluation.concentration import Concentration, attribute_concentration, concentration_within_classes
from magnet.report.summary.findings import Findings
from magnet.report.summary.rivals import rivals
from magnet.report.summary.stories import Story
from magnet.runs.evaluate import evaluate, seconds_of_evaluation
from magnet.runs.run import Run
from magnet.training.refresh import Report


def measure(story: Story, report: Report | None = None) -> None:
    """Give a story its findings: those kept from an earlier report if they still hold, or new ones."""
    try:
        story.findings = _measure(story.folder, story.notes, report)
    except UserError as error:
        story.trouble = str(error)


def _measure(folder: Path, notes: list[str], report: Report | None) -> Findings:
    try:
        run = Run(folder, report=report)
    except UserError as error:
        known = _earlier(folder)
        if known is None:
            raise
        notes.append(f"Measured earlier: {error}.")
        return known
    rows = run.data.indices("test")
    if not len(rows):
        raise UserError(f"{run.config.data} has no test part to evaluate on")
    notes += run.notes
    evaluation = evaluate(run)
    known = Findings.load(folder, evaluation)
    if known is not None and known.digest == run.embeddings.digest:
        return known
    start = time.perf_counter()
    sigma = run.rule("knc").variance ** 0.5
    wrong = {row["class"] for row in evaluation["worst"]}
    found = Findings(
        evaluation=evaluation,
        impostors={
            name: rivals(run.index, label, run.classes, sigma)
            for label, name in enumerate(run.classes)
            if name in wrong
        },
        sigma=sigma,
        attributes=None
        if run.data.attributes is None
        else attribute_findings(
            run.data.attributes.keep(rows.numpy()), run.part("test", test=True), run.data.labels[rows]
        ),
        examples=fingerprint(run.data, rows),
        digest=run.embeddings.digest,
        seconds=seconds_of_evaluation(run) + time.perf_counter() - start,
    )
    found.save(folder)
    return found


def _earlier(folder: Path) -> Findings | None:
    """What is kept of a run whose data cannot be opened."""
    with suppress(UserError):
        run = Run(folder, need_data=False)
        known = Findings.load(folder, evaluate(run))
        if known is not None and known.digest == run.embeddings.digest:
            return known
    return None


def attribute_findings(attributes: Attributes, representations: Tensor, labels: Tensor) -> dict[str, Any] | None:
    """Attribute precision as plain values; ``within`` the classes where the attributes were given to each image."""
    if not attributes.names:
        return None
    by_class = attributes.level == "class"
    found = attribute_concentration(representations, attributes.values, labels=labels, others_only=by_class)
    within = None if by_class else concentration_within_classes(representations, attributes.values, labels)
    return {
        "level": attributes.level,
        "names": attributes.names,
        "sizes": list(found.sizes),
        "all": _values(found),
        "within": None if within is None else _values(within),
    }


def fingerprint(data: Dataset, rows: Tensor) -> str:
    """The same for the same examples, by name, class and content."""
    digest = hashlib.sha256(data.digest.content.encode())
    for row in rows.tolist():
        digest.update(f"{data.names[row]}\0{data.classes[int(data.labels[row])]}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _values(found: Concentration) -> dict[str, Any]:
    return {
        "precision": _plain(found.precision),
        "base": _plain(np.array([found.base]))[0],
        "lift": _plain(found.lift),
        "counts": found.counts.tolist(),
        "per_attribute": [_plain(row) for row in found.per_attribute],
        "chance": _plain(found.chance),
    }


def _plain(numbers: np.ndarray) -> list[float | None]:
    """JSON has no nan."""
    return [float(number) if np.isfinite(number) else None for number in numbers]
