"""evaluate: everything that is measured of a run on labelled data."""

from dataclasses import asdict
from typing import Any

from torch import Tensor

from magnet.data import Dataset
from magnet.evaluation.calibration import calibration_error
from magnet.evaluation.confusion import worst_classes
from magnet.evaluation.errors import top_errors
from magnet.evaluation.held_out import class_scores
from magnet.evaluation.matching import match, open_like
from magnet.evaluation.retrieval import retrieval
from magnet.evaluation.temperature import temper
from magnet.training.checkpoint import describe_checkpoint
from magnet.training.run import Run
from magnet.training.workbench import absolute


def evaluate(run: Run, data: Dataset | str | None = None, part: str = "test", *, worst: int = 10) -> dict[str, Any]:
    """Errors of a run under kNC, soft kNN and its own head, and how well its space retrieves.

    Args:
        run: an opened run.
        data: other data than the run's own, whose classes are matched by name; those unknown to the run are left out.
        part: "train", "validation", "test" or "all".
        worst: how many of the classes with the most errors to list.

    Returns:
        ``knc``, ``knn`` and, where the method has one, ``head``: ``error`` and ``error@5``, fractions, and the
        expected calibration error, ``ece`` as it is and ``ece_calibrated`` with the temperature of ``calibration``,
        which was fitted to held-out training examples. ``retrieval``: ``recall@1`` and ``map@r`` among the examples
        evaluated, each left out of its own references. ``worst``: the classes that go wrong most under ``rule``, the
        one the method is judged by. ``n`` examples were evaluated, of which ``seen`` are the run's own training
        examples; ``left_out`` were not, being of the ``unknown`` classes. ``checkpoint`` says which step of the run it
        is, in words.
    """
    chosen = run.data if data is None else open_like(run, data) if isinstance(data, str) else data
    matched = match(run, chosen, part)
    queries = run.embed(matched.rows, chosen, test=True)
    scores = class_scores(run, queries, run.rule("knc"), run.rule("knn"))
    temperatures = run.calibration.temperatures
    own = absolute(chosen.spec) == absolute(run.config.data)
    rule = run.learner.method.classifier
    probabilities, classes = scores[rule if rule in scores else "knc"]
    return {
        "split": part,
        "n": len(queries),
        **{name: _judge(*pair, matched.labels, temperatures[name]) for name, pair in scores.items()},
        "calibration": asdict(run.calibration),
        "retrieval": retrieval(queries, matched.labels),
        "rule": rule,
        "worst": worst_classes(classes[probabilities.argmax(dim=1)], matched.labels, run.classes, worst),
        "seen": int((chosen.split[matched.rows] == 0).sum()) if own else 0,
        "left_out": matched.left_out,
        "unknown": matched.unknown,
        "data": chosen.spec,
        "run": str(run.folder),
        "step": run.step,
        "checkpoint": describe_checkpoint(run.checkpoint),
        "method": run.config.method,
    }


def _judge(probabilities: Tensor, classes: Tensor, labels: Tensor, temperature: float) -> dict[str, float]:
    right = classes[probabilities.argmax(dim=1)] == labels
    raw, calibrated = (p.max(dim=1).values for p in (probabilities, temper(probabilities, temperature)))
    return top_errors(probabilities, classes, labels) | {
        "ece": calibration_error(raw, right),
        "ece_calibrated": calibration_error(calibrated, right),
    }
