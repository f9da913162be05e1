"""evaluate: everything that is measured of a run on labelled data."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple, TypedDict

import torch
from torch import Tensor

from magnet.data import Dataset, open_data
from magnet.data.sources import has_label
from magnet.errors import UserError
from magnet.evaluation.errors import Ranking, calibration_error, retrieval, worst_classes
from magnet.evaluation.verification import verification
from magnet.files import inside, read_record, write_record
from magnet.runs.calibrate import rankings, refitted
from magnet.runs.run import Run
from magnet.schema import Bounds
from magnet.training.folder import merge_again, restore_parts
from magnet.training.workbench import absolute

WORST = 10  # classes with the most errors that are listed
FORMAT = 3  # of what is kept in a run: raised when the same run and data are given other numbers


class Kept(TypedDict):
    """A result in the cache of a run."""

    key: str  # of all that it depends on
    result: dict[str, Any]
    seconds: Annotated[float, Bounds(0)]  # that measuring it took


class Matched(NamedTuple):
    """Examples to evaluate."""

    data: Dataset
    rows: Tensor  # (n,) ids into data
    labels: Tensor  # (n,) classes as the run numbers them
    left_out: int  # examples of the part whose class the run does not know
    unknown: list[str]  # those classes


def evaluate(run: Run, data: Dataset | str | None = None, part: str = "test") -> dict[str, Any]:
    """Errors of a run under kNC, soft kNN and its own head, and how well its space retrieves.

    What is found of the run's own test part is kept in the run, and shown from there by every command.

    Args:
        run: an opened run.
        data: other data than the run's own, whose classes are matched by name; those unknown to the run are left out.
        part: "train", "validation", "test" or "all".

    Returns:
        ``knc``, ``knn`` and, where the method has one, ``head``: ``error`` and ``error@5``, fractions, and the
        expected calibration error, ``ece`` as it is and ``ece_calibrated`` with the temperature of ``calibration``,
        which was fitted to held-out training examples. These are of the mean of ``views`` test views of each image;
        ``plain`` has ``error`` and ``error@5`` of the plain view alone (of vectors, the same). ``retrieval``:
        ``recall@1`` and ``map@r`` among the examples evaluated, each left out of its own references.
        ``verification``: pairs of the examples evaluated, see `magnet.evaluation.verification`; thresholds in sigma.
        ``judge``, of data opened with other labels to judge by: errors of classifiers refitted to these. ``worst``: the
        classes that go wrong most under ``rule``, the one the method is judged by. ``n`` examples were evaluated, of
        which ``seen`` are the run's own training examples; ``left_out`` were not, being of the ``unknown`` classes.
        ``checkpoint`` says which step of the run it is, in words.
    """
    if data is None and part == "test":
        found = _kept(run, _name(run), lambda: _measure(run, run.data, part))
    else:
        chosen = open_like(run, data) if isinstance(data, str) else run.data if data is None else data
        found = _measure(run, chosen, part)
    return found | {"run": str(run.folder), "step": run.step, "checkpoint": run.checkpoint.description}


def plain_errors(run: Run) -> dict[str, Any]:
    """Errors of the plain view on the run's own test part, as `evaluate` has them, without its other measurements.

    Returns:
        ``split``, ``n``, ``rule`` (the one the method is judged by) and ``plain``: for each classifier ``error`` and
        ``error@5``.
    """
    found = evaluate(run) if run.views.draws == 1 else _kept(run, "plain", lambda: _measure_plain(run))
    return {key: found[key] for key in ("split", "n", "rule", "plain")}


def seconds_of_evaluation(run: Run) -> float:
    """How long evaluating the run's own test part took, whenever that was; 0 if it is not known."""
    known = _read(run, _name(run))
    return known["seconds"] if known else 0.0


def match(run: Run, data: Dataset, part: str) -> Matched:
    """The examples of a part of the data whose class names the run knows, with the run's class ids."""
    if data.kind != run.kind or (run.kind == "vectors" and data.shape != run.shape):
        raise UserError(
            f"{data.spec} holds {data.kind} of shape {tuple(data.shape)}; the run {run.folder} takes {run.kind} of "
            f"shape {tuple(run.shape)}"
        )
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
            f"it has {_some(data.classes)}; the run knows {_some(run.classes)}. Classes are matched by name"
        )
    return Matched(data, rows[known], labels[known], int((~known).sum()), [data.classes[c] for c in strange])


def open_like(run: Run, spec: str, label: str = "") -> Dataset:
    """Other data, opened for a run: of the same kind, split by the same seed, decoded for its image size.

    Its labels are in the column ``label``; "": the one of the run, where the data has it.
    """
    own = absolute(spec) == absolute(run.config.data)
    validation = run.config.validation if own else 0.0
    config = run.config
    data = open_data(
        spec,
        label=label or (config.label if own or has_label(spec, config.label) else ""),
        judge=config.judge if own else "",
        seed=run.config.seed,
        validation=validation,
        on_bad_image=run.config.bad_images,
        hash_images=run.config.hash_images,
        max_pixels=run.config.max_pixels,
    )
    data = merge_again(run.folder, data)
    if own:
        data = restore_parts(run.folder, data)
    kind, shape = run.kind, run.shape
    if data.kind != kind:
        raise UserError(f"{spec} holds {data.kind}, but the run {run.folder} was trained on {kind}")
    if kind == "images":
        return data.with_image_size(run.config.image_size)
    if data.shape != shape:
        raise UserError(
            f"{spec} holds vectors of {data.shape[0]} dimensions, but the run {run.folder} was trained on {shape[0]}"
        )
    return data


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
    """Errors on the labels that a run is judged by and was not trained on, by classifiers refitted to them."""
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
    """A result on the run's own data: the one in the run if it still holds, or a new one, which is then kept."""
    known = _read(run, name)
    if known is not None:
        return dict(known["result"])
    start, result = time.perf_counter(), measure()
    path, mark = run.place_of(name)
    content = {"key": f"{FORMAT}/{mark}", "result": result, "seconds": time.perf_counter() - start}
    with suppress(OSError):  # a run on a read-only or full disk can be used all the same
        inside(run.folder, path.parent.name)
        write_record(path, content)
    return result


def _read(run: Run, name: str) -> Kept | None:
    path, mark = run.place_of(name)
    with suppress(OSError, UserError):  # none yet, or a damaged one: it is measured again
        known: Kept = read_record(path, Kept)
        if known["key"] == f"{FORMAT}/{mark}":
            return known
    return None


def _judge(said: Ranking, labels: Tensor) -> dict[str, float]:
    right = said.predicted == labels
    return said.errors(labels) | {
        "ece": calibration_error(said.confidence, right),
        "ece_calibrated": calibration_error(said.tempered, right),
    }


def _some(names: list[str], count: int = 3) -> str:
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(names[:count]) + more
