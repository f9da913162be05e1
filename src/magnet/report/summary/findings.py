"""The contents of a report for each run: its settings, its journal, and measurements on its test part.

Among these: which classes are confused, with pictures of the mistakes and of what each class looks like.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import torch
from scipy.cluster.hierarchy import leaves_list, linkage
from torch import Tensor

from magnet.data import Dataset
from magnet.data.listings import Attributes
from magnet.errors import Bounds, Count, Positive, Seconds, Share, UserError, checked
from magnet.evaluation.concentration import SIZES, Concentration, attribute_concentration, concentration_within_classes
from magnet.files import inside, read_record, write_record
from magnet.index import ClusterIndex
from magnet.report.pictures import data_uri, photographs, square_side, squares, webp
from magnet.runs.evaluate import evaluate, seconds_of_evaluation
from magnet.runs.run import Run, cache_key, class_scores
from magnet.training.config import TrainConfig, check_run, read_config
from magnet.training.folder import FOLDER, Progress, checkpoints, journal_note, open_checkpoint, read_journal
from magnet.training.inputs import Report

_FORMAT = 5
MOST_CLASSES = 60  # in a matrix, and with exemplars: those that are confused most
MOST_PAIRS = 12  # with pictures
MISTAKES, BESIDE = 4, 3  # pictures of a pair: mistakes, and exemplars of either class
EXEMPLARS = 6  # of a class
SIDE = 224  # of a picture as it opens; about 9 kB, so that those of 60 classes take 5 MB of the page
COARSE = 56  # side of stored images that are shown pixel by pixel


Number = Annotated[float, Bounds(-1e9, 1e9)]
Rival = TypedDict(
    "Rival", {"class": str, "cluster": Count, "size": Count, "own": Count, "own_size": Count, "distance": Number}
)


class Pair(TypedDict):
    """Two classes of which one is taken for the other: ids, how often, and pictures of the mistakes."""

    label: Count
    taken: Count
    n: Count
    mistakes: list[str]


class Confusion(TypedDict):
    """See `confusion_findings`."""

    classes: list[Count]
    n: list[Count]
    cells: list[tuple[Count, Count, Count]]
    pairs: list[Pair]
    exemplars: dict[str, list[str]]
    small: bool


class Precision(TypedDict):
    """Attribute precision at the sizes of neighbourhoods, over all attributes and of each; None: not known."""

    precision: list[Share | None]
    base: Share | None
    lift: list[Number | None]
    counts: list[Count]
    per_attribute: list[list[Share | None]]
    chance: list[Share | None]


class AttributeFindings(TypedDict):
    """See `attribute_findings`."""

    level: Literal["class", "image"]
    names: list[str]
    sizes: list[Count]
    all: Precision
    within: Precision | None


@dataclass(frozen=True)
class Findings:
    """Plain values only, as JSON holds them."""

    evaluation: dict[str, Any]  # of `magnet.runs.evaluate.evaluate`, which keeps it itself
    impostors: dict[str, list[dict[str, Any]]]  # of each of its worst classes: see `rivals`
    sigma: Positive  # the unit of their distances
    classes: list[str]
    confusion: dict[str, Any]  # see `magnet.report.summary.findings.confusion_findings`
    attributes: dict[str, Any] | None  # see `attribute_findings`; None: the data has none
    examples: str  # a fingerprint of the examples that were evaluated
    digest: str  # of the data, as a whole
    seconds: Seconds  # that measuring took, with the evaluation

    def save(self, folder: Path) -> None:
        """Keep them in the cache of the run; where that cannot be written, they are measured again next time."""
        path, key = _place(folder)
        with suppress(OSError):
            inside(folder, path.parent.name)
            write_record(path, {"key": key, "findings": {**asdict(self), "evaluation": {}}})

    @classmethod
    def load(cls, run: Run, evaluation: dict[str, Any]) -> "Findings | None":
        """What was measured of this checkpoint and data under these settings, if it was, beside its evaluation."""
        path, key = _place(run.folder)
        with suppress(OSError, UserError):
            known: _Kept = read_record(path, _Kept)
            found = known["findings"]
            if known["key"] == key and found.digest == run.embeddings.digest and _whole(found, run.classes):
                return replace(found, evaluation=evaluation)
        return None


class _Kept(TypedDict):
    key: str  # of all that they depend on
    findings: Findings


def _whole(found: Findings, classes: list[str]) -> bool:
    """Whether all values have their types, ids of classes exist, lists are as long as they should be, and pictures
    are pictures: a checksum tells accidents, but not a file that somebody wrote.
    """
    matrix: Confusion = checked(found.confusion, Confusion, "confusion")
    attributes: AttributeFindings | None = checked(found.attributes, AttributeFindings | None, "attributes")
    checked(found.impostors, dict[str, list[Rival]], "impostors")
    count = len(classes)
    ids = [*matrix["classes"], *(id for cell in matrix["cells"] for id in cell[:2])]
    ids += [id for pair in matrix["pairs"] for id in (pair["label"], pair["taken"])]
    pictures = [picture for pair in matrix["pairs"] for picture in pair["mistakes"]]
    pictures += [picture for some in matrix["exemplars"].values() for picture in some]
    if found.classes != classes or len(matrix["n"]) != count or max(ids, default=0) >= count:
        return False
    if not all(picture.startswith(data_uri(b"")) for picture in pictures):
        return False
    if attributes is None:
        return True
    sizes, number = list(SIZES), len(attributes["names"])
    return attributes["sizes"] == sizes and all(
        len(part["precision"]) == len(part["lift"]) == len(sizes)
        and len(part["counts"]) == len(part["chance"]) == len(part["per_attribute"]) == number
        and all(len(row) == len(sizes) for row in part["per_attribute"])
        and all(None not in row for row, n in zip(part["per_attribute"], part["counts"], strict=True) if n)
        for part in (attributes["all"], attributes["within"])
        if part is not None
    )


def _place(folder: Path) -> tuple[Path, str]:
    """The file, and the mark of all that findings depend on apart from the data."""
    checkpoint, config = open_checkpoint(folder / FOLDER), read_config(folder)
    key = f"{_FORMAT}/{cache_key(checkpoint, config)}/{config.test_draws}"
    return folder / "cache" / f"{checkpoint.path.name}.report.json", hashlib.sha256(key.encode()).hexdigest()


@dataclass
class ReportedRun:
    """One run in a report."""

    folder: Path
    name: str  # short, and different for every run
    config: TrainConfig
    journal: list[dict[str, Any]]
    step: int  # of the last checkpoint or record
    finished: bool
    seconds: dict[str, float]  # spent on training, embedding, refresh, validation; over all sessions
    findings: Findings | None = None
    trouble: str = ""  # why there are no findings
    notes: list[str] = field(default_factory=list)


def read_runs(folders: Sequence[Path]) -> list[ReportedRun]:
    """The runs at these folders, each once."""
    unique = list({folder.resolve(): folder for folder in folders}.values())
    names = short_names([folder.resolve() for folder in unique])
    return [_read_run(folder, name) for folder, name in zip(unique, names, strict=True)]


def short_names(folders: Sequence[Path]) -> list[str]:
    """For each folder as many of its last parts as it takes to tell all of them apart."""
    depth = 1
    while True:
        names = ["/".join(folder.parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names) or depth >= max(len(folder.parts) for folder in folders):
            return names
        depth += 1


def _read_run(folder: Path, name: str) -> ReportedRun:
    check_run(folder)
    journal = read_journal(folder)
    last = open_checkpoint(folder / FOLDER, "last", ()) if checkpoints(folder / FOLDER) else None
    progress: Progress = last.manifest.progress if last else {}
    damaged = journal_note(folder, last.manifest.journal) if last else ""
    # A run that was killed has no record of its times; its last checkpoint knows those until then.
    times = [record["seconds"] for record in journal if record.get("kind") == "time"] or [progress.get("seconds", {})]
    step = max([last.step if last else 0, *(int(record["step"]) for record in journal)])
    run = ReportedRun(folder, name, read_config(folder), journal, step, progress.get("finished", False), times[-1])
    run.notes += [damaged] if damaged else []
    return run


def measure(run: ReportedRun, report: Report | None = None) -> None:
    """Give a run its findings: those kept from an earlier report if they still hold, or new ones."""
    try:
        run.findings = _measure(run.folder, run.notes, report)
    except UserError as error:
        run.trouble = str(error)


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
    known = Findings.load(run, evaluation)
    if known is not None:
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
        classes=run.classes,
        confusion=confusion_findings(run),
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
        return Findings.load(run, evaluate(run))
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


def rivals(
    index: ClusterIndex, label: int, classes: list[str], sigma: float, *, count: int = 3
) -> list[dict[str, Any]]:
    """The nearest pairs of a cluster of a class and an impostor cluster, nearest first, each impostor once.

    Returns:
        For each: ``class``, ``cluster`` and ``size`` of the impostor, ``own`` and ``own_size`` of the class's own
        cluster, and the ``distance`` of the two centres in units of ``sigma``.
    """
    own = (index.centre_labels == label).nonzero().squeeze(1)
    if not len(own):
        return []
    # One of the `count` nearest impostors is among the `count` nearest of the own cluster that it is nearest to.
    table = index.nearest_impostors(count, own)
    apart = torch.linalg.vector_norm(index.centres[own][:, None] - index.centres[table.clamp_min(0)], dim=2)
    pairs = sorted(
        (float(apart[row, place]), int(own[row]), int(impostor))
        for row in range(len(own))
        for place, impostor in enumerate(table[row].tolist())
        if impostor >= 0
    )
    nearest: dict[int, dict[str, Any]] = {}
    for distance, cluster, impostor in pairs:
        nearest.setdefault(
            impostor,
            {
                "class": classes[int(index.centre_labels[impostor])],
                "cluster": impostor,
                "size": int(index.sizes[impostor]),
                "own": cluster,
                "own_size": int(index.sizes[cluster]),
                "distance": distance / sigma,
            },
        )
    return list(nearest.values())[:count]


def confusion_findings(run: Run) -> dict[str, Any]:
    """What is taken for what on the test part, under the rule that the method is judged by, as plain values.

    Returns:
        ``classes``: ids of the classes shown, similar ones side by side; ``n`` test examples of each class of the
        data; ``cells``: [label, prediction, count], the diagonal too; ``pairs``: the most frequent mistakes with
        pictures (``label``, ``taken``, ``n``, ``mistakes``); ``exemplars``: pictures by class id, as text; ``small``
        whether pictures have few pixels. A picture is its ``name`` and its ``source``, a data address; tables have
        none.
    """
    rows = run.data.indices("test")
    labels = run.data.labels[rows]
    scores, classes = class_scores(run, run.part("test", test=True), run.rule("knc"), run.rule("knn"))[
        run.learner.method.classifier
    ]
    predicted = classes[scores.argmax(dim=1)]
    matrix = torch.zeros(len(run.classes), len(run.classes), dtype=torch.long)
    matrix.index_put_((labels, predicted), torch.ones_like(labels), accumulate=True)
    shown = order_by_similarity(run.references, run.labels, confused_most(matrix))
    pairs = worst_pairs(matrix)
    exemplars = {label: nearest_to_centres(run.references, run.index, label) for label in shown}
    wrong_by_score = scores.amax(dim=1).argsort(descending=True)  # the surest mistakes first
    mistakes = [
        rows[[i for i in wrong_by_score.tolist() if labels[i] == a and predicted[i] == b][:MISTAKES]].tolist()
        for a, b, _ in pairs
    ]
    train = run.train
    drawn = [i for some in mistakes for i in some] + [int(train[i]) for some in exemplars.values() for i in some]
    pictures = _pictures(run.data, drawn)
    return {
        "classes": shown,
        "n": matrix.sum(dim=1).tolist(),
        "cells": [[a, b, int(matrix[a, b])] for a, b in matrix.nonzero().tolist()],
        "pairs": [
            {"label": a, "taken": b, "n": n, "mistakes": [pictures[i] for i in some if i in pictures]}
            for (a, b, n), some in zip(pairs, mistakes, strict=True)
        ],
        "exemplars": {
            str(label): [pictures[i] for i in train[places].tolist() if i in pictures]
            for label, places in exemplars.items()
        },
        "small": run.data.kind == "vectors" or 0 < run.data.stored_side < COARSE,
    }


def confused_most(matrix: Tensor) -> list[int]:
    """The classes (at most MOST_CLASSES) that take part in most mistakes of a confusion matrix (C, C)."""
    mistakes = matrix - matrix.diag().diag()
    return (mistakes.sum(dim=0) + mistakes.sum(dim=1)).argsort(descending=True, stable=True)[:MOST_CLASSES].tolist()


def worst_pairs(matrix: Tensor) -> list[tuple[int, int, int]]:
    """The most frequent mistakes of a confusion matrix (C, C): label, prediction, count.

    >>> worst_pairs(torch.tensor([[5, 1, 0], [3, 2, 0], [0, 0, 4]]))
    [(1, 0, 3), (0, 1, 1)]
    """
    mistakes = matrix - matrix.diag().diag()
    found = [(a, b, int(mistakes[a, b])) for a, b in mistakes.nonzero().tolist()]
    return sorted(found, key=lambda pair: -pair[2])[:MOST_PAIRS]


def order_by_similarity(representations: Tensor, labels: Tensor, classes: list[int]) -> list[int]:
    """Classes so that those with near means of representations (N, d) stand side by side; those without any last."""
    known = [label for label in classes if bool((labels == label).any())]
    if len(known) > 2:
        means = torch.stack([representations[labels == label].double().mean(dim=0) for label in known])
        known = [known[i] for i in leaves_list(linkage(means.numpy(), "average", optimal_ordering=True))]
    return known + [label for label in classes if label not in known]


def nearest_to_centres(representations: Tensor, index: ClusterIndex, label: int) -> list[int]:
    """Training examples that show a class: the nearest to each of its centres, the largest cluster first, in turns."""
    clusters = (index.centre_labels == label).nonzero()[:, 0]
    turns = []
    for cluster in clusters[index.sizes[clusters].argsort(descending=True, stable=True)].tolist():
        members = index.members(cluster)
        distances = (representations[members] - index.centres[cluster]).square().sum(dim=1)
        turns.append(members[distances.argsort()[:EXEMPLARS]].tolist())
    mixed = [some[turn] for turn in range(EXEMPLARS) for some in turns if turn < len(some)]
    return mixed[:EXEMPLARS]


def _pictures(data: Dataset, rows: list[int]) -> dict[int, dict[str, str]]:
    """Pictures of examples, by id, as data addresses with their names; none of tables."""
    unique = np.array(sorted(set(rows)), dtype=np.int64)
    side = square_side(data)
    files: Iterator[bytes] = iter(())
    if data.kind == "images":
        files = map(webp, photographs(data, unique, min(SIDE, data.stored_side or SIDE)))
    elif side and len(unique):
        files = (webp(picture, 100) for picture in squares(data, unique).reshape(-1, side, side))
    return {
        row: {"name": data.names[row], "source": data_uri(file)}
        for row, file in zip(unique.tolist(), files, strict=False)
    }
