"""What held-out examples determine for the use of a run: votes, temperatures and the novelty threshold.

The held-out examples are those of the validation part, in their test views. Without a validation part, the training
part is cross-validated in five folds: clusters are fitted to four of them and judged on the fifth. The network was
trained on all of them, so probabilities are then a little too confident.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from magnet.classify import STAYS_KNOWN, SoftNeighbours, novelty
from magnet.errors import UserError
from magnet.evaluation.errors import FOLDS, MANY, Ranking, choose_temperature
from magnet.files import Bounds, Count, Positive, inside, read_record, write_record
from magnet.votes import (
    PULL,
    Examples,
    Folds,
    Votes,
    choose_knc,
    choose_knn,
    hold_out,
    stratified_folds,
    stratified_part,
)

if TYPE_CHECKING:
    from magnet.runs.run import Run

CELLS = 2**23  # in a table with a column for every class: 64 MB
MOST = 20_000  # training examples to choose votes by, without a validation part
Scores = dict[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Calibration:
    """The temperatures and the novelty threshold of a run."""

    temperatures: dict[str, Positive]  # of each classifier (knc, knn, head); 1 if a temperature does not help
    log_loss: dict[str, float]  # of each classifier on the held-out examples, without a temperature
    log_loss_tempered: dict[str, float]  # with a temperature fitted to other held-out examples
    # The distance to the nearest centre, in sigma, above which an example is novel; None: unknown, nothing is novel.
    novelty_threshold: Annotated[float, Bounds(0)] | None
    held_out: Literal["validation", "train"]  # the part that the held-out examples are from
    examples: Count  # held out; 0 if every class has one example only, and all temperatures are then 1


@dataclass(frozen=True)
class _Kept:
    """The record in the cache of a run."""

    key: str  # of all that it depends on
    calibration: Calibration


class _Held(NamedTuple):
    """Held-out representations (n, d) with labels (n,), and classifiers that were fitted without them."""

    queries: Tensor
    labels: Tensor
    knc: SoftNeighbours
    knn: SoftNeighbours


def choose_votes(run: "Run", representations: Tensor, labels: Tensor | None = None) -> dict[str, Votes]:
    """How clusters (``knc``) and examples (``knn``) vote.

    Votes that the configuration states are used; the others are chosen by the log-loss on held-out examples.

    Args:
        run: with its data open.
        representations: (N, d) of its training part.
        labels: of all examples of the data, to vote for other labels than the run was trained on.
    """
    config, given = run.config, None
    if labels is None and config.votes_scaling and config.votes_clusters:
        pull = (config.pull or PULL) if config.centres == "refined" else None
        given = Votes(config.votes_scaling, config.neighbours, config.votes_clusters, pull)
    if given is not None and config.knn_scaling:
        return {"knc": given, "knn": Votes(config.knn_scaling, config.knn_neighbours or config.neighbours)}
    folds = _folds_of(run, representations, run.data.labels if labels is None else labels)
    if folds is None:
        scaling, clusters = config.votes_scaling or run.learner.method.scaling, config.clusters_per_class
        return {"knc": Votes(scaling, config.neighbours, clusters), "knn": Votes(scaling, config.neighbours)}
    numbers = sorted({1, 2, 4, config.clusters_per_class})  # of clusters of a class that may vote
    wanted = [config.votes_clusters] if labels is None and config.votes_clusters else numbers
    knc = given or choose_knc(folds, wanted, config.centres)
    variances = [index.variance for index in folds.cluster([part.x for part in folds.parts], knc.clusters, restarts=1)]
    return {"knc": knc, "knn": choose_knn(folds, variances)}


def refitted(run: "Run", labels: Tensor) -> dict[str, SoftNeighbours]:
    """kNC and soft kNN fitted to labels (N,) of all examples, other than those that the run was trained on."""
    config, own, references = run.config, labels[run.train], run.references
    votes = choose_votes(run, references, labels) if config.votes == "chosen" else {}
    index = run.clustered(references, own, votes)
    if not votes:
        rule = run.learner.method.soft_rule
        return {
            "knc": rule("knc", index, references, own, config.neighbours),
            "knn": rule("knn", index, references, own, config.neighbours),
        }
    clusters = votes["knc"].of_clusters(index)
    if votes["knc"].pull is not None:
        clusters = clusters.refined(references, own, pull=votes["knc"].pull)
    return {"knc": clusters, "knn": votes["knn"].of_examples(references, own, index.variance)}


def _folds_of(run: "Run", representations: Tensor, labels: Tensor) -> Folds | None:
    """The training part with the validation part held out, or else folds of the training part."""
    own, rows = labels[run.train], run.data.indices("validation")
    weight = torch.ones(int(labels.max()) + 1, dtype=torch.float64)
    if len(rows):
        rows = rows[torch.isin(labels[rows], own)]
        held = Examples(run.embed(rows, test=True).double(), labels[rows])
        return Folds([Examples(representations.double(), own)], [held], weight, run.config.neighbours, run.config.seed)
    places = stratified_part(own, MOST, seed=0)
    examples = Examples(representations[places].double(), own[places])
    return hold_out(examples, 1 / FOLDS, weight, run.config.neighbours, run.config.seed)


@torch.no_grad()
def class_scores(run: "Run", queries: Tensor, knc: SoftNeighbours, knn: SoftNeighbours) -> Scores:
    """For each classifier the log-probabilities (n, C) and the class of each column (C,), including the head."""
    scores = {name: (rule.predict_log_proba(queries), rule.classes) for name, rule in {"knc": knc, "knn": knn}.items()}
    logits = run.learner.method.logits(queries.to(run.device))
    if logits is not None:
        scores["head"] = logits.cpu().double().log_softmax(dim=1), torch.arange(logits.shape[1])
    return scores


@torch.no_grad()
def rankings(run: "Run", queries: Tensor, temperatures: Mapping[str, float]) -> dict[str, Ranking]:
    """The predictions of each classifier for queries (n, d), including the head if there is one."""
    rules = {"knc": run.rule("knc"), "knn": run.rule("knn")}
    found = {
        name: Ranking.of(rule.class_votes(queries), rule.classes, temperatures[name]) for name, rule in rules.items()
    }
    logits = run.learner.method.logits(queries[:1].to(run.device))
    if logits is not None:
        classes = torch.arange(logits.shape[1])
        found["head"] = Ranking.of(_head_votes(run, queries, len(classes)), classes, temperatures["head"])
    return found


def _head_votes(run: "Run", queries: Tensor, classes: int) -> Iterator[tuple[Tensor, Tensor]]:
    for part in queries.split(max(1, CELLS // classes)):
        logits = run.learner.method.logits(part.to(run.device))
        assert logits is not None
        yield torch.arange(classes).expand(len(part), -1), logits.cpu().double().log_softmax(dim=1)


def calibrate(run: "Run", file: Path, key: str) -> Calibration:
    """The calibration of a run, read from ``file`` if that was written with the same key."""
    with suppress(OSError, UserError):  # a missing or damaged file is written again
        known: _Kept = read_record(file, _Kept)
        if known.key == key:
            return known.calibration
    seen = run.open_data()  # to use its validation part; without the data, the result is not kept
    found = _measure(run)
    if seen:
        with suppress(OSError):
            inside(run.folder, file.parent.name)
            write_record(file, asdict(_Kept(key, found)))
    return found


def _measure(run: "Run") -> Calibration:
    validation = run.data.indices("validation") if run.opened else torch.empty(0)
    parts = [_validation(run, validation)] if len(validation) else list(_folds(run))
    labels = torch.cat([torch.empty(0, dtype=torch.long), *(part.labels for part in parts)])
    source: Literal["validation", "train"] = "validation" if len(validation) else "train"
    if not len(labels):
        return Calibration(dict.fromkeys(("knc", "knn", "head"), 1.0), {}, {}, None, source, 0)
    scores = [class_scores(run, part.queries, part.knc, part.knn) for part in parts]
    chosen = {}
    for name, (_, classes) in scores[0].items():
        if source == "train" and name != "head" and run.config.votes == "chosen":
            continue  # the scaling of the votes was chosen for calibrated probabilities
        probabilities = torch.cat([part[name][0] for part in scores]).exp()
        chosen[name] = choose_temperature(probabilities, torch.searchsorted(classes, labels))
    far = [novelty(part.queries, part.knc.references, part.knc.variance) for part in parts]
    ones = dict.fromkeys(scores[0], 1.0)
    return Calibration(
        ones | {name: found.temperature for name, found in chosen.items()},
        {name: found.log_loss for name, found in chosen.items()},
        {name: found.log_loss_tempered for name, found in chosen.items()},
        float(torch.cat(far).double().quantile(STAYS_KNOWN)),
        source,
        len(labels),
    )


def _validation(run: "Run", rows: Tensor) -> _Held:
    most = max(1, CELLS // len(run.classes))
    labels = run.data.labels[rows]
    known = torch.isin(labels, run.index.centre_labels).nonzero()[:, 0]
    known = known[:: -(-len(known) // most)]
    return _Held(run.embed(rows[known], test=True), labels[known], run.rule("knc"), run.rule("knn"))


def _folds(run: "Run") -> Iterator[_Held]:
    """Folds of the training part; of a large one, at most one fold."""
    references, labels, most = run.references, run.labels, min(MANY, max(1, CELLS // len(run.classes)))
    fold = stratified_folds(labels, FOLDS, run.config.seed)
    for number in range(FOLDS if len(labels) <= MANY else 1):
        out = fold == number
        rest, owners = references[~out], labels[~out]
        index = run.clustered(rest, owners, run.embeddings.votes)
        rules = run.rules_of(index, rest, owners)
        if out.any():
            yield _Held(references[out][:most], labels[out][:most], *rules)
