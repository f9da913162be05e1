"""Measures of representations with known labels: errors, worst classes, linear probe, retrieval, calibration, pairs.

Probabilities are calibrated if predictions of 80 % are right in 80 % of the cases; a temperature brings them nearer to
that (Guo et al., 2017).
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from magnet.errors import UserError
from magnet.neighbours import (
    CHUNK_ELEMENTS,
    check_ids,
    check_number,
    check_positive,
    check_representations,
    check_whole,
    nearest_of_chunk,
    split_rows,
)

FLOOR = 1e-30  # a probability of zero, for logarithms
LEAST = torch.finfo(torch.float32).eps  # the least probability in a log-loss: below it, votes are lost to rounding
CHUNK = 8192  # queries that are judged at a time
RANGE = (1 / 16, 64.0)  # of temperatures
FOLDS = 5  # of cross-validation
MANY = 5000  # examples above which one fold is enough
MOST_PAIRS = 300_000  # of the same class, and of different ones
RATES = (0.1, 0.01, 0.001)  # of false accepts that are reported
POINTS = 50  # of the ROC curve
PENALTY = 1e-3  # of the linear probe
LEAST_FALSE = 10  # false accepts that a threshold must rest on
ROWS = 65_536  # pairs whose distances are computed at a time


class Judged(NamedTuple):
    """The error and the log-loss of a classifier."""

    error: float  # a fraction
    log_loss: float  # mean of -log p(true class), in nats


def log_losses(probabilities: Tensor, classes: Tensor, labels: Tensor) -> Tensor:
    """``-log p`` (n,) of the true class; at most 15.9, so that it is finite for a class without any vote.

    ``classes`` (C,) are the labels of the columns, ascending; a label that no column has is a class without any vote.
    """
    column = torch.searchsorted(classes, labels).clamp_max(len(classes) - 1)
    found = probabilities.gather(1, column[:, None]).squeeze(1).double()
    return -found.where(classes[column] == labels, 0.0).clamp_min(LEAST).log()


class Ranking(NamedTuple):
    """The predictions of a classifier for n examples, without a column for every class."""

    predicted: Tensor  # (n,) the most probable label
    top: Tensor  # (n, k) the k most probable labels, best first; -1 where fewer classes have a vote
    confidence: Tensor  # (n,) the probability of the predicted label
    tempered: Tensor  # (n,) that probability after the temperature was applied

    @classmethod
    def of(cls, votes: Iterable[tuple[Tensor, Tensor]], classes: Tensor, temperature: float, top: int = 5) -> "Ranking":
        """From the columns (b, m) and log-probabilities (b, m) of classes that have a vote, some rows at a time.

        Args:
            votes: as `magnet.classify.SoftNeighbours.class_votes` gives them; column -1 stands for none.
            classes: (C,) the label of each column.
            temperature: of the calibrated probabilities.
            top: k.

        Examples:
            >>> logs = torch.tensor([[0.7, 0.2, 0.1]]).log()
            >>> Ranking.of([(torch.tensor([[0, 1, 2]]), logs)], torch.tensor([5, 6, 7]), 1.0, 2).top
            tensor([[5, 6]])
        """
        parts = []
        for columns, logs in votes:
            best = logs.topk(min(top, logs.shape[1]), dim=1)
            chosen = columns.gather(1, best.indices)
            labels = torch.where((chosen >= 0) & (best.values > -torch.inf), classes[chosen.clamp_min(0)], -1)
            first = logs.argmax(dim=1, keepdim=True)
            confidence = logs.gather(1, first)[:, 0].exp()
            parts.append(
                (classes[columns.gather(1, first)[:, 0]], labels, confidence, _temper(logs, classes, temperature))
            )
        return cls(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def errors(self, labels: Tensor) -> dict[str, float]:
        """``error`` and ``error@5``: the share of rows whose label (n,) is not the first, not among the first five."""
        hits = self.top == labels[:, None]
        return {name: float((~hits[:, :k].any(dim=1)).double().mean()) for name, k in (("error", 1), ("error@5", 5))}


def _temper(logs: Tensor, classes: Tensor, temperature: float) -> Tensor:
    """The largest ``p^(1/T)`` of each row (n,), normalised over all classes; classes without a vote have p = FLOOR."""
    voted = logs > -torch.inf
    low = math.log(FLOOR)
    scaled = logs.clamp_min(low).masked_fill(~voted, -torch.inf) / temperature
    rest = (len(classes) - voted.sum(dim=1)).double().log() + low / temperature
    return (scaled.amax(dim=1) - torch.logaddexp(scaled.logsumexp(dim=1), rest)).exp()


def judge(predict_proba: Callable[[Tensor], Tensor], classes: Tensor, queries: Tensor, labels: Tensor) -> Judged:
    """Error and log-loss of a classifier on queries (n, d) with labels (n,).

    ``predict_proba`` gives probabilities (b, C) of representations (b, d); ``classes`` (C,) are the labels of the
    columns, ascending.
    """
    wrong, loss = 0, 0.0
    for r, truth in zip(queries.split(CHUNK), labels.split(CHUNK), strict=True):
        votes = predict_proba(r)
        wrong += int((classes[votes.argmax(dim=1)] != truth).sum())
        loss += float(log_losses(votes, classes, truth).sum())
    return Judged(wrong / len(labels), loss / len(labels))


def worst_classes(
    predicted: Tensor, labels: Tensor, classes: Sequence[str], count: int = 10, mistakes: int = 3
) -> list[dict[str, Any]]:
    """The ``count`` classes with the largest share of errors, worst first; those without errors are left out.

    Args:
        predicted: (n,) class ids.
        labels: (n,) the truth.
        classes: the name of each id.
        count: how many classes at most.
        mistakes: how many wrong predictions to name for each, the most frequent first.

    Returns:
        For each: ``class``, ``n`` its examples, ``error`` a fraction, ``taken_for`` a list of ``class`` and ``n``.
    """

    def taken_for(c: int) -> list[dict[str, Any]]:
        ids, times = predicted[wrong & (labels == c)].unique(return_counts=True)
        order = times.argsort(descending=True, stable=True)[:mistakes].tolist()
        return [{"class": classes[int(ids[i])], "n": int(times[i])} for i in order]

    sizes = torch.bincount(labels, minlength=len(classes))
    wrong = predicted != labels
    errors = torch.bincount(labels[wrong], minlength=len(classes))
    share = errors / sizes.clamp_min(1)
    # Of two classes with the same share the one with more errors is worse.
    order = sorted(range(len(classes)), key=lambda c: (-float(share[c]), -int(errors[c]), c))
    return [
        {
            "class": classes[c],
            "n": int(sizes[c]),
            "error": int(errors[c]) / int(sizes[c]),
            "taken_for": taken_for(c),
        }
        for c in order[:count]
        if errors[c]
    ]


def linear_probe(references: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
    """The labels (n,) that multinomial logistic regression (scikit-learn's) gives to queries (n, d).

    Minimises ``mean_i -log softmax_{y_i}(W r_i + b) + PENALTY / 2 |W|^2`` over references (N, d) with labels (N,).
    Representations are centred and scaled by one number, so that the penalty means the same for all.

    Examples:
        >>> r = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
        >>> linear_probe(r, torch.tensor([3, 3, 8, 8]), torch.tensor([[1.5], [3.5]]))
        tensor([3, 8])
    """
    from sklearn.linear_model import LogisticRegression

    centre = references.mean(dim=0)
    scale = (references - centre).square().mean().sqrt().clamp_min(torch.finfo(references.dtype).tiny)
    known, asked = (((r - centre) / scale).double().cpu().numpy() for r in (references, queries))
    # scikit-learn minimises the sum of the losses + |W|^2 / (2 C).
    probe = LogisticRegression(C=1 / (PENALTY * len(references)), max_iter=1000)
    return torch.as_tensor(probe.fit(known, labels.cpu().numpy()).predict(asked))


def retrieval(
    queries: Tensor,
    labels: Tensor,
    references: Tensor | None = None,
    reference_labels: Tensor | None = None,
) -> dict[str, float | None]:
    """Recall at 1 and mean average precision at R (Musgrave, Belongie and Lim, 2020), exact.

    R is the number of references of the query's class. With P(i) the precision among the i nearest references,

        MAP@R = mean over queries of  1/R sum_{i=1..R} P(i) [the i-th nearest is of the query's class].

    Args:
        queries: (n, d) with ``labels`` (n,).
        references: (m, d) with ``reference_labels`` (m,); None: the queries themselves, each one left out of its own
            references.

    Returns:
        ``recall@1`` and ``map@r``, over the queries that have a reference of their class; None where there is none.

    Examples:
        >>> r = torch.tensor([[0.0], [1.0], [2.0], [5.0], [6.0]])
        >>> retrieval(r, torch.tensor([0, 0, 1, 1, 1]))
        {'recall@1': 0.8, 'map@r': 0.8}
    """
    among = references is None
    if references is None:
        references, reference_labels = queries, labels
    assert reference_labels is not None
    size = int(max(labels.max(), reference_labels.max())) + 1
    relevant = torch.bincount(reference_labels, minlength=size)[labels] - int(among)  # R of each query (n,)
    asked = relevant.argsort()[int((relevant == 0).sum()) :]  # sorted by R: a chunk ranks as deep as its largest R
    if not len(asked):
        return {"recall@1": None, "map@r": None}
    first, precision = 0.0, 0.0
    for rows in _chunks(asked, relevant, len(references)):
        r = relevant[rows, None]
        deepest = int(r.max())
        ids = nearest_of_chunk(queries[rows], references, deepest + int(among))[1]
        if among:  # without the query itself, or without the last where the query is not among them
            kept = ids != rows[:, None]
            kept[:, -1] &= ~kept.all(dim=1)
            ids = ids[kept].view(len(ids), -1)
        hits = reference_labels[ids] == labels[rows, None]
        rank = torch.arange(1, deepest + 1)
        shares = hits.cumsum(dim=1) / rank * (hits & (rank <= r)) / r
        first += float(hits[:, 0].sum())
        precision += float(shares.double().sum())
    return {"recall@1": first / len(asked), "map@r": precision / len(asked)}


def _chunks(asked: Tensor, relevant: Tensor, references: int) -> Iterator[Tensor]:
    """Rows in chunks whose distances and rankings both fit into the memory budget."""
    for rows in split_rows(asked, references):
        yield from rows.split(max(1, CHUNK_ELEMENTS // (int(relevant[rows].max()) + 1)))


class Tempered(NamedTuple):
    """A temperature, and the cross-validated log-losses without and with it."""

    temperature: float  # 1 if a fitted temperature does not help
    log_loss: float  # without a temperature
    log_loss_tempered: float  # with temperatures fitted to the other folds


def calibration_error(confidence: Tensor, correct: Tensor, bins: int = 15) -> float:
    """Expected calibration error: how far confidence is from accuracy, on average (Guo et al., 2017).

    ``sum_b n_b / n |accuracy_b - confidence_b|`` over bins of equal width, ((b - 1) / B, b / B].

    Args:
        confidence: (n,) the probability of the predicted class, in [0, 1].
        correct: (n,) whether the prediction was right.
        bins: B.

    >>> calibration_error(torch.tensor([0.75, 0.75, 0.5, 0.5]), torch.tensor([True, True, True, False]))
    0.125
    """
    confidence = confidence.double()
    place = (confidence * bins).ceil().long().clamp(1, bins) - 1
    gaps = torch.zeros(bins, dtype=torch.double).scatter_add_(0, place, correct.double() - confidence)
    return float(gaps.abs().sum() / len(confidence))


def temper(probabilities: Tensor, temperature: float) -> Tensor:
    """``p^(1/T)``, normalised (n, C): the order of the classes stays, the confidence changes."""
    return torch.softmax(probabilities.clamp_min(FLOOR).log() / temperature, dim=1)


def choose_temperature(probabilities: Tensor, columns: Tensor) -> Tempered:
    """The fitted temperature if it helps on examples that it was not fitted to, else 1.

    A temperature fitted to a few dozen examples of a well-calibrated classifier is mostly noise. So it is
    cross-validated: each fold is judged with the temperature fitted to the others. The temperature fitted to all
    examples is kept if the mean log-loss falls by more than its standard error.

    Args:
        probabilities: (n, C) of examples that the classifier was not made of.
        columns: (n,) the column of each example's class.
    """
    classes = torch.arange(probabilities.shape[1])
    fold = torch.randperm(len(columns), generator=torch.Generator().manual_seed(0)) % FOLDS
    before, after = [torch.empty(0, dtype=torch.float64)], [torch.empty(0, dtype=torch.float64)]
    for number in range(FOLDS if len(columns) <= MANY else 1):
        out = fold == number
        if not out.any() or out.all():
            continue
        held, truth = probabilities[out].double(), columns[out]
        temperature = fit_temperature(probabilities[~out], columns[~out])
        before.append(log_losses(held, classes, truth))
        after.append(log_losses(temper(held, temperature), classes, truth))
    raw, tempered = torch.cat(before), torch.cat(after)
    gain = raw - tempered
    helps = len(gain) > 1 and float(gain.mean()) > float(gain.std()) / math.sqrt(len(gain))
    return Tempered(
        fit_temperature(probabilities, columns) if helps else 1.0, float(raw.mean()), float(tempered.mean())
    )


def fit_temperature(probabilities: Tensor, columns: Tensor) -> float:
    """The temperature with the least log-loss.

    One mistake is added to the examples (the mean of the losses that they would have if the strongest other class were
    the true one), so that a classifier without mistakes is not made infinitely confident. Arguments as of
    `choose_temperature`.
    """
    logs = probabilities.double().clamp_min(FLOOR).log()
    rival = logs.scatter(1, columns[:, None], -torch.inf).argmax(dim=1, keepdim=True)

    def loss(log_temperature: float) -> float:
        scaled = torch.log_softmax(logs / math.exp(log_temperature), dim=1).clamp_min(math.log(LEAST))
        return -float(scaled.gather(1, columns[:, None]).sum() + scaled.gather(1, rival).mean())

    bounds = (math.log(RANGE[0]), math.log(RANGE[1]))
    return math.exp(float(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x))


def verification(
    representations: Tensor, labels: Tensor, *, rates: Sequence[float] = RATES, unit: float = 1.0, seed: int = 0
) -> dict[str, Any]:
    """How well distances tell pairs of the same class from pairs of different classes.

    Args:
        representations: (n, d).
        labels: (n,) classes.
        rates: of false accepts, at which a threshold is wanted.
        unit: of the reported distances, such as sigma.
        seed: of the pairs, where there are more than 300,000.

    Returns:
        ``pairs``: how many of the ``same`` class and of ``different`` ones. ``auc``: the area under the ROC curve, the
        chance that a pair of the same class is nearer than one of different classes. ``equal_error``: the error rate
        where false accepts and false rejects are equally frequent. ``at``: for each rate, the highest ``threshold``
        with no more ``false_accept`` than that, and its ``true_accept``; a rate that would rest on fewer than ten
        false accepts is left out. ``roc``: points ``[false accept, true accept]`` for a curve. Empty without pairs of
        both kinds.

    Examples:
        >>> r = torch.tensor([[0.0], [1.0], [5.0], [6.0]])
        >>> found = verification(r, torch.tensor([0, 0, 1, 1]))
        >>> found["pairs"], found["auc"]
        ({'same': 2, 'different': 4}, 1.0)
    """
    for rate in rates:
        if not 0 < check_number(rate, "a false-accept rate") < 1:
            raise UserError(f"a false-accept rate is {rate}, expected a share between 0 and 1")
    check_representations(representations)
    labels = check_ids(labels, len(representations), "labels")
    check_positive(unit, "unit")
    same, different = _pairs(labels, check_whole(seed, "seed", 0))
    if not len(same) or not len(different):
        return {}
    near, far = (_distances(representations, pairs).sort().values / unit for pairs in (same, different))
    # Of each distance between different classes: how many pairs of the same class lie nearer, ties counting half.
    below = torch.searchsorted(near, far).double()
    ties = torch.searchsorted(near, far, right=True).double() - below
    return {
        "pairs": {"same": len(near), "different": len(far)},
        "auc": float((below + ties / 2).mean() / len(near)),
        "equal_error": _equal_error(near, far),
        "at": [at_rate(near, far, rate) for rate in rates if rate * len(far) >= LEAST_FALSE],
        "roc": _curve(near, far),
    }


def at_rate(near: Tensor, far: Tensor, rate: float) -> dict[str, float]:
    """The highest threshold at which at most a share ``rate`` of false pairs is accepted, and what it accepts.

    Distances of pairs of the same class (``near``) and of different classes (``far``) are given in ascending order.
    """
    allowed = int(rate * len(far))
    # A pair is accepted if it is nearer than the threshold: the first false pair that is one too many.
    threshold = far[min(allowed, len(far) - 1)]
    return {
        "rate": rate,
        "threshold": float(threshold),
        "false_accept": int(torch.searchsorted(far, threshold)) / len(far),
        "true_accept": int(torch.searchsorted(near, threshold)) / len(near),
    }


def _pairs(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Pairs (p, 2) of examples of the same class, and of different ones: all, or a sample of each kind."""
    n = len(labels)
    generator = torch.Generator().manual_seed(seed)
    if n * (n - 1) // 2 <= MOST_PAIRS:
        pairs = torch.combinations(torch.arange(n))
        equal = labels[pairs[:, 0]] == labels[pairs[:, 1]]
        return pairs[equal], pairs[~equal]
    order = torch.argsort(labels, stable=True)
    sizes = torch.bincount(labels)
    starts = sizes.cumsum(0) - sizes
    # Classes by the number of their pairs, then two different members.
    weights = (sizes * (sizes - 1)).double()
    if float(weights.sum()) == 0:
        return torch.empty(0, 2, dtype=torch.long), torch.empty(0, 2, dtype=torch.long)
    chosen = torch.searchsorted(
        weights.cumsum(0), torch.rand(MOST_PAIRS, generator=generator, dtype=torch.float64) * weights.sum(), right=True
    ).clamp_max(len(sizes) - 1)
    first = (torch.rand(MOST_PAIRS, generator=generator, dtype=torch.float64) * sizes[chosen]).long()
    step = 1 + (torch.rand(MOST_PAIRS, generator=generator, dtype=torch.float64) * (sizes[chosen] - 1)).long()
    second = (first + step) % sizes[chosen]
    same = torch.stack([order[starts[chosen] + first], order[starts[chosen] + second]], dim=1)
    drawn = torch.randint(n, (2 * MOST_PAIRS, 2), generator=generator)
    different = drawn[labels[drawn[:, 0]] != labels[drawn[:, 1]]][:MOST_PAIRS]
    return same, different


def _distances(r: Tensor, pairs: Tensor) -> Tensor:
    return torch.cat([torch.linalg.vector_norm(r[p[:, 0]] - r[p[:, 1]], dim=1) for p in pairs.split(ROWS)])


def _equal_error(near: Tensor, far: Tensor) -> float:
    """The error rate at the threshold where false accepts and false rejects are equally frequent."""
    thresholds = torch.cat([near, far]).sort().values
    accepts = torch.searchsorted(far, thresholds, right=True).double() / len(far)
    rejects = 1 - torch.searchsorted(near, thresholds, right=True).double() / len(near)
    place = (accepts - rejects).abs().argmin()
    return float((accepts[place] + rejects[place]) / 2)


def _curve(near: Tensor, far: Tensor) -> list[list[float]]:
    """Points of the ROC curve, evenly spread over the logarithm of the false-accept rate."""
    least = max(1 / len(far), 1e-5)
    rates = torch.logspace(0, 1, POINTS, base=1 / least, dtype=torch.float64) * least
    rows = [at_rate(near, far, float(rate)) for rate in rates]
    return [[row["false_accept"], row["true_accept"]] for row in rows]
