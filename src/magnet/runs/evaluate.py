"""Evaluate a run on labelled data: errors, calibration, retrieval, verification, and the worst classes."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import torch
from torch import Tensor

from magnet.data import Dataset
from magnet.data.sources import has_label
from magnet.errors import Bounds, Count, Seconds, Share, UserError, checked, first_few
from magnet.evaluation.errors import Ranking, calibration_error, retrieval, verification, worst_classes
from magnet.files import inside, read_record, write_record
from magnet.runs.run import Calibration, Run, rankings, refitted
from magnet.training.folder import merge_again, restore_parts
from magnet.training.workbench import absolute, open_for

PLAIN = "plain"  # the name of the cached errors of the plain view alone
WORST = 10  # classes with the most errors that are listed
PAIRS, SAMPLE = 2**30, 5000  # of test and training examples, above which so many test examples are enough for soft kNN
FORMAT = 3  # of cached results: to be raised when the same run and data give other numbers


# What a result in the cache of a run must look like: a checksum tells accidents, but not a file that somebody wrote.
Examples = Annotated[int, Bounds(1, 2**53)]
Distance = Annotated[float, Bounds(0)]
Errors = TypedDict("Errors", {"error": Share, "error@5": Share})
Judged = TypedDict("Judged", {"error": Share, "error@5": Share, "ece": Share, "ece_calibrated": Share})
Retrieval = TypedDict("Retrieval", {"recall@1": Share | None, "map@r": Share | None})
Mistake = TypedDict("Mistake", {"class": str, "n": Examples})
Worst = TypedDict("Worst", {"class": str, "n": Examples, "error": Share, "taken_for": list[Mistake]})


class RuleErrors(TypedDict):
    """Errors under each classifier."""

    knc: Errors
    knn: Errors
    head: NotRequired[Errors]


class Pairs(TypedDict):
    """How many pairs verification looked at."""

    same: Examples
    different: Examples


class AtRate(TypedDict):
    """What a threshold accepts."""

    rate: Share
    threshold: Distance
    false_accept: Share
    true_accept: Share


class Verification(TypedDict):
    """See `magnet.evaluation.errors.verification`."""

    pairs: Pairs
    auc: Share
    equal_error: Share
    at: list[AtRate]
    roc: list[list[Share]]


class OtherLabels(RuleErrors):
    """Errors on the labels to judge by."""

    labels: str
    classes: Count


class PlainResult(TypedDict):
    """The result of `plain_errors`."""

    split: Literal["test"]
    n: Examples
    rule: Literal["knc", "knn", "head"]
    plain: RuleErrors


class Result(PlainResult):
    """The result of `evaluate` on the run's own test part."""

    knc: Judged
    knn: Judged
    head: NotRequired[Judged]
    views: Examples
    calibration: Calibration
    retrieval: Retrieval
    verification: Verification | dict[str, None]  # empty where there were no pairs
    judge: NotRequired[OtherLabels]
    worst: list[Worst]
    seen: Count
    left_out: Count
    unknown: list[str]
    data: str
    method: str


class Kept(TypedDict):
    """A result in the cache of a run."""

    key: str  # of all that it depends on
    result: dict[str, Any]  # a `PlainResult` or a `Result`
    seconds: Seconds  # that measuring it took


class Matched(NamedTuple):
    """Examples to evaluate."""

    data: Dataset
    rows: Tensor  # (n,) ids into data
    labels: Tensor  # (n,) the run's class ids
    left_out: int  # examples of the part whose class the run does not know
    unknown: list[str]  # those classes


def evaluate(run: Run, data: Dataset | str | None = None, part: str = "test") -> dict[str, Any]:
    """Errors of a run under kNC, soft kNN and its own head, and measures of retrieval and verification.

    The results on the run's own test part are cached in the run; every command reads them from there.

    Args:
        run: an opened run.
        data: other data than the run's own, whose classes are matched by name; those unknown to the run are left out.
        part: "train", "validation", "test" or "all".

    Returns:
        ``knc``, ``knn`` and, if the method has one, ``head``: ``error`` and ``error@5`` as fractions, and the expected
        calibration error without (``ece``) and with (``ece_calibrated``) the temperature of ``calibration``. They are
        for the mean over ``views`` test views of each image; ``plain`` has the errors of the plain view alone (the same
        for vectors). ``retrieval``: ``recall@1`` and ``map@r`` among the evaluated examples, each left out of its own
        references. ``verification``: of pairs of the evaluated examples, with thresholds in sigma (see
        `magnet.evaluation.errors`). ``judge``, for data with other labels to judge by: errors of classifiers
        refitted to these. ``worst``: the classes with the largest errors under ``rule``, the rule that the method is
        judged by. ``n``: the number of evaluated examples, of which ``seen`` are training examples of the run;
        ``left_out``: the number of examples of ``unknown`` classes, which were not evaluated. ``checkpoint``: which
        step of the run this is, in words.
    """
    if data is None and part == "test":
        found = _kept(run, _name(run), lambda: _measure(run, run.data, part))
    else:
        chosen = open_like(run, data) if isinstance(data, str) else run.data if data is None else data
        found = _measure(run, chosen, part)
    return found | {"run": str(run.folder), "step": run.step, "checkpoint": run.checkpoint.description}


def plain_errors(run: Run) -> dict[str, Any]:
    """The errors of the plain view on the run's own test part, without the other measurements of `evaluate`.

    Returns:
        ``split``, ``n``, ``rule`` (the one the method is judged by) and ``plain``: for each classifier ``error`` and
        ``error@5``.
    """
    found = evaluate(run) if run.views.draws == 1 else _kept(run, PLAIN, lambda: _measure_plain(run))
    return {key: found[key] for key in ("split", "n", "rule", "plain")}


def errors_soon(run: Run) -> dict[str, Any]:
    """As `plain_errors`, without hours for a large set: soft kNN then judges a sample of the test part.

    It compares each test example with each training example: a million examples in minutes, where retrieval, which
    `evaluate` measures as well, takes far longer. What has been measured already is taken from the cache.

    Returns:
        As `plain_errors`, and ``sampled``: the number of test examples that the error under soft kNN is of.
    """
    test = run.data.indices("test")
    few = len(test) <= SAMPLE or len(test) * len(run.train) <= PAIRS
    if few or _read(run, _name(run) if run.views.draws == 1 else PLAIN) is not None:
        return plain_errors(run) | {"sampled": len(test)}
    queries, labels = run.part("test"), run.data.labels[test]
    ones = dict.fromkeys(("knc", "knn", "head"), 1.0)  # a temperature does not change which class is the likeliest
    some = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:SAMPLE]
    errors = {name: found.errors(labels) for name, found in rankings(run, queries, ones, names=["knc"]).items()}
    errors["knn"] = rankings(run, queries[some], ones, names=["knn"])["knn"].errors(labels[some])
    rule = run.learner.method.classifier
    return {"split": "test", "n": len(test), "rule": rule, "plain": errors, "sampled": len(some)}


def seconds_of_evaluation(run: Run) -> float:
    """The seconds that the cached evaluation of the run's own test part took; 0 if there is none."""
    known = _read(run, _name(run))
    return known["seconds"] if known else 0.0


def match(run: Run, data: Dataset, part: str) -> Matched:
    """The examples of a part of the data whose class names the run knows, with the run's class ids."""
    check_kind(run, data)
    rows = data.indices(part)
    if not len(rows):
        raise UserError(f"{data.spec} has no {part} part; choose another with --part")
    ids = {name: i for i, name in enumerate(run.classes)}
    table = torch.tensor([ids.get(name, -1) for name in data.classes])
    labels = table[data.labels[rows]]
    known = labels >= 0
    strange = data.labels[rows][~known].unique().tolist()
    if not known.any():
        raise UserError(
            f"none of the {len(strange)} classes of {data.spec} is known to the run {run.folder}: "
            f"it has {first_few(data.classes)}; the run knows {first_few(run.classes)}. Classes are matched by name"
        )
    return Matched(data, rows[known], labels[known], int((~known).sum()), [data.classes[c] for c in strange])


def open_like(run: Run, spec: str, label: str = "") -> Dataset:
    """Open other data for a run: with the run's seed and image size, and refused if it is of another kind.

    Its labels are in the column ``label``; "": in the run's column of labels, if the data has that.
    """
    config, own = run.config, absolute(spec) == absolute(run.config.data)
    label = label or (config.label if own or has_label(spec, config.label) else "")
    if not own:
        config = replace(config, judge="", validation=0.0)
    data = merge_again(run.folder, open_for(replace(config, data=spec, label=label)))
    if own:
        data = restore_parts(run.folder, data)
    check_kind(run, data)
    return data


def check_kind(run: Run, data: Dataset) -> None:
    """Refuse data that the network of a run cannot take."""
    found, wanted = (
        what.kind if what.kind == "images" else f"vectors of {what.shape[0]} dimensions" for what in (data, run)
    )
    if found != wanted:
        raise UserError(f"{data.spec} holds {found}, but the run {run.folder} was trained on {wanted}")


def _name(run: Run) -> str:
    return f"test-{run.views.draws}"


def _measure(run: Run, data: Dataset, part: str) -> dict[str, Any]:
    matched, views = match(run, data, part), run.views.draws
    queries = _embed(run, matched, part, test=True)
    said = rankings(run, queries, run.calibration.temperatures)
    if views == 1:
        plain = _errors(said, matched)
    elif run.opened and data is run.data and part == "test":
        plain = plain_errors(run)["plain"]
    else:
        plain = _errors(rankings(run, _embed(run, matched, part), run.calibration.temperatures), matched)
    own = absolute(data.spec) == absolute(run.config.data)
    rule = run.learner.method.classifier
    return {
        "split": part,
        "n": len(queries),
        **{name: _judge(ranking, matched.labels) for name, ranking in said.items()},
        "views": views,
        "plain": plain,
        "calibration": asdict(run.calibration),
        "retrieval": retrieval(queries, matched.labels),
        "verification": verification(queries, matched.labels, unit=run.rule("knc").variance ** 0.5),
        **_judged(run, data, matched, queries),
        "rule": rule,
        "worst": worst_classes(said[rule if rule in said else "knc"].predicted, matched.labels, run.classes, WORST),
        "seen": int((data.split[matched.rows] == 0).sum()) if own else 0,
        "left_out": matched.left_out,
        "unknown": matched.unknown,
        "data": data.spec,
        "method": run.config.method,
    }


def _judged(run: Run, data: Dataset, matched: Matched, queries: Tensor) -> dict[str, Any]:
    """Errors of classifiers that were refitted to the labels to judge by, which the run was not trained on."""
    if not data.judged or not run.opened or data.classes != run.data.classes or run.data.fine_labels is None:
        return {}
    assert data.fine_labels is not None
    assert data.fine_classes is not None
    rules = refitted(run, run.data.fine_labels)
    number = {name: i for i, name in enumerate(run.data.fine_classes or [])}
    table = torch.tensor([number.get(name, -1) for name in data.fine_classes])
    truth = table[data.fine_labels[matched.rows]]
    ranked = {name: Ranking.of(rule.class_votes(queries), rule.classes, 1.0) for name, rule in rules.items()}
    errors = {name: ranking.errors(truth) for name, ranking in ranked.items()}
    return {"judge": {"labels": run.config.judge, "classes": len(data.fine_classes), **errors}}


def _measure_plain(run: Run) -> dict[str, Any]:
    matched = match(run, run.data, "test")
    errors = _errors(rankings(run, _embed(run, matched, "test"), run.calibration.temperatures), matched)
    return {"split": "test", "n": len(matched.rows), "rule": run.learner.method.classifier, "plain": errors}


def _embed(run: Run, matched: Matched, part: str, *, test: bool = False) -> Tensor:
    if run.opened and matched.data is run.data and not matched.left_out:
        return run.part(part, test=test)
    return run.embed(matched.rows, matched.data, test=test)


def _errors(said: dict[str, Ranking], matched: Matched) -> dict[str, dict[str, float]]:
    return {name: ranking.errors(matched.labels) for name, ranking in said.items()}


def _kept(run: Run, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A result on the run's own data, from the cache of the run if that is still valid; else measured and cached."""
    known = _read(run, name)
    if known is not None:
        return known["result"]
    start, result = time.perf_counter(), measure()
    path, mark = run.place_of(name)
    content = {"key": f"{FORMAT}/{mark}", "result": result, "seconds": time.perf_counter() - start}
    with suppress(OSError):  # a run on a read-only or full disk can be used all the same
        inside(run.folder, path.parent.name)
        write_record(path, content)
    return result


def _read(run: Run, name: str) -> Kept | None:
    """What is cached under a name, its ``result`` and ``seconds``; None where it is missing, stale or damaged."""
    path, mark = run.place_of(name)
    with suppress(OSError, UserError):  # it is written again
        known: Kept = read_record(path, Kept)
        known["result"] = checked(known["result"], PlainResult if name == PLAIN else Result, str(path))
        if known["key"] == f"{FORMAT}/{mark}" and _fits(run, known["result"]):
            return known
    return None


def _fits(run: Run, result: dict[str, Any]) -> bool:
    """Whether a cached result speaks of this run: its number of examples, its classifiers and its classes."""
    rule = run.learner.method.classifier
    if result["rule"] != rule or rule not in result["plain"]:
        return False
    if run.opened and result["n"] != len(run.data.indices("test")):
        return False
    if "views" not in result:  # the plain view alone
        return True
    result["calibration"] = asdict(result["calibration"])
    named = {place["class"] for row in result["worst"] for place in (row, *row["taken_for"])}
    points = all(len(point) == 2 for point in result["verification"].get("roc", []))
    about = result["method"], result["views"], rule in result
    return points and about == (run.config.method, run.views.draws, True) and named <= set(run.classes)


def _judge(said: Ranking, labels: Tensor) -> dict[str, float]:
    right = said.predicted == labels
    return said.errors(labels) | {
        "ece": calibration_error(said.confidence, right),
        "ece_calibrated": calibration_error(said.tempered, right),
    }
