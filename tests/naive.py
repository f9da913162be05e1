"""The paper's equations, spelled out in loops: slow, literal, and written without looking at the package."""

import math
from decimal import Decimal

import numpy as np


def squared_distance(a, b):
    return float(sum((float(x) - float(y)) ** 2 for x, y in zip(a, b, strict=True)))


def minus_log_ratio(own, others, alpha, scaling, variance):
    """{-log(exp(-s own / 2 sigma^2 - alpha) / sum exp(-s other / 2 sigma^2))}_+, and zero for an empty sum."""
    if not others:
        return 0.0
    # In decimals, which neither overflow nor vanish: the ratio stays as it is printed.
    numerator = Decimal(-scaling * own / (2 * variance) - alpha).exp()
    denominator = sum(Decimal(-scaling * other / (2 * variance)).exp() for other in others)
    return max(0.0, -float((numerator / denominator).ln()))


def stochastic_objective(
    r, clusters, labels, alpha=1.0, scaling=1.0, own_mean="batch", variance=None, neighbourhoods=None
):
    """Section 3.2: losses (B,) and variance of a batch; every neighbourhood has clusters of its own."""
    r = np.asarray(r, dtype=np.float64)
    places = [0] * len(r) if neighbourhoods is None else [int(n) for n in neighbourhoods]
    names = [(place, int(c)) for place, c in zip(places, clusters, strict=True)]
    rows = {name: [i for i in range(len(r)) if names[i] == name] for name in names}
    means = {name: np.mean([r[i] for i in members], axis=0) for name, members in rows.items()}
    classes = {name: int(labels[members[0]]) for name, members in rows.items()}
    if variance is None:
        variance = sum(squared_distance(r[i], means[names[i]]) for i in range(len(r))) / (len(r) - 1)
    losses = []
    for i, name in enumerate(names):
        companions = [j for j in rows[name] if j != i]
        alone = own_mean == "batch" or not companions
        mean = means[name] if alone else np.mean([r[j] for j in companions], axis=0)
        others = [
            squared_distance(r[i], means[other])
            for other in means
            if other[0] == name[0] and classes[other] != int(labels[i])
        ]
        losses.append(minus_log_ratio(squared_distance(r[i], mean), others, alpha, scaling, variance))
    return np.array(losses), variance


def full_objective(r, assignments, centre_labels, centres=None, alpha=1.0, scaling=1.0, variance=None):
    """Equation 3: losses (N,) and variance of a set over all clusters, by default with the means as centres."""
    r = np.asarray(r, dtype=np.float64)
    count = len(centre_labels)
    if centres is None:
        centres = [np.mean([r[n] for n in range(len(r)) if assignments[n] == j], axis=0) for j in range(count)]
    own = [squared_distance(r[n], centres[int(assignments[n])]) for n in range(len(r))]
    if variance is None:
        variance = sum(own) / (len(r) - 1)
    losses = []
    for n in range(len(r)):
        mine = int(centre_labels[int(assignments[n])])
        others = [squared_distance(r[n], centres[j]) for j in range(count) if int(centre_labels[j]) != mine]
        losses.append(minus_log_ratio(own[n], others, alpha, scaling, variance))
    return np.array(losses), variance


def symmetrised_triplet(first, second, impostor, alpha):
    """Section 3.4: the two hinges of a pair of positives against one impostor."""
    pair = squared_distance(first, second)
    return [max(0.0, pair - squared_distance(r, impostor) + alpha) for r in (first, second)]


def numeric_gradient(function, x, step=1e-6):
    """Central differences of a scalar function of an array."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[place] += step
        behind[place] -= step
        gradient[place] = (function(ahead) - function(behind)) / (2 * step)
    return gradient


def nearest_impostors(centres, centre_labels, j, m):
    """Ids of the m centres of other classes nearest to centre j, nearest first."""
    others = [k for k in range(len(centres)) if int(centre_labels[k]) != int(centre_labels[j])]
    return sorted(others, key=lambda k: squared_distance(centres[j], centres[k]))[:m]


def soft_votes(query, references, reference_labels, neighbours, variance, scaling=1.0):
    """Equation 5 for one query: {label: probability} over the nearest references (centres or examples)."""
    distances = [squared_distance(query, reference) for reference in references]
    nearest = sorted(range(len(references)), key=lambda i: distances[i])[:neighbours]
    weights = {i: math.exp(-scaling * distances[i] / (2 * variance)) for i in nearest}
    votes = {int(label): 0.0 for label in reference_labels}
    for i, weight in weights.items():
        votes[int(reference_labels[i])] += weight / sum(weights.values())
    return votes


def soft_vote_table(queries, references, reference_labels, neighbours, variance, scaling=1.0):
    """`soft_votes` of many queries (n, C), columns in ascending order of label."""
    rows = [soft_votes(q, references, reference_labels, neighbours, variance, scaling) for q in queries]
    return np.array([[row[label] for label in sorted(row)] for row in rows])


def corrected_average(values, decay):
    """Exponential average whose weights sum to one."""
    weights = [decay ** (len(values) - 1 - i) for i in range(len(values))]
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
