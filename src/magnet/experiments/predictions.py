"""What each rule answers on the test part: computed once for a run and kept beside its weights."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from magnet.evaluation.errors import soft_rule
from magnet.evaluation.held_out import class_scores
from magnet.files import replacing
from magnet.index import ClusterIndex
from magnet.training.run import Run

TOP = 5
Rule = Literal["head", "knc", "knn"]
RULES: tuple[Rule, ...] = ("head", "knc", "knn")
NAMES = {"head": "own head", "knc": "kNC", "knn": "soft kNN"}


def top_classes(run: Run, labels: Tensor | None = None) -> dict[Rule, np.ndarray]:
    """The five likeliest classes (n, 5) of every test example, best first, under each rule; -1 for none.

    Args:
        run: a trained run.
        labels: (N,) other labels of all examples than those trained on: the classifiers are refitted to them, and the
            run's own head, which knows nothing of them, is left out.
    """
    path = run.folder / f"answers-{'own' if labels is None else 'refitted'}.npz"
    if path.is_file():
        with np.load(path) as kept:
            return {rule: kept[rule] for rule in RULES if rule in kept}
    config, method = run.config, run.learner.method
    rows = run.data.indices("test")
    queries = run.embed(rows, test=True)
    train_labels = run.bench.labels if labels is None else labels[run.bench.train]
    index = run.index
    if labels is not None:
        index = ClusterIndex.fit(run.references, train_labels, config.clusters_per_class, seed=config.seed)
    rules = [soft_rule(method, rule, index, run.references, train_labels, config.neighbours) for rule in _soft()]
    if labels is None:
        scores = class_scores(run, queries, *rules)
    else:
        pairs = zip(_soft(), rules, strict=True)
        scores = {name: (rule.predict_log_proba(queries), rule.classes) for name, rule in pairs}
    answers: dict[Rule, np.ndarray] = {rule: _best(*scores[rule]) for rule in RULES if rule in scores}
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez(file, **answers)  # type: ignore[arg-type]
    return answers


def wrong(answers: np.ndarray, truth: Tensor, top: int = 1) -> np.ndarray:
    """Whether the true class (n,) is not among the first ``top`` answers (n, 5)."""
    return ~(answers[:, :top] == truth.numpy()[:, None]).any(axis=1)


def _soft() -> tuple[Literal["knc"], Literal["knn"]]:
    return ("knc", "knn")


def _best(scores: Tensor, classes: Tensor) -> np.ndarray:
    ranked = scores.topk(min(TOP, scores.shape[1]), dim=1)
    return torch.where(ranked.values > -torch.inf, classes[ranked.indices], -1).numpy()
