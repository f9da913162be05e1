"""The closed-form start: a representation that is good before the first step of training.

Four steps lead from features x (d,) to representations r (k,):

1. *Power.* ``z = x^p``. The square root (p = 1/2) of non-negative features evens out what a few large values would
   dominate; p = 1 leaves the features as they are. Where no linear map is enough, each example is then described by
   how near it is to `Landmarks`, and these are its features in what follows.
2. *Whitening within clusters.* With S the covariance of the examples around the means of their clusters (K-means in
   every class) and t its mean eigenvalue, the noise is ``(1 - shrinkage) S + shrinkage t I``, and the map makes it
   white. What lies between the clusters of a class is signal, which is the idea of the paper (section 3) without a
   step of training. With one cluster a class this is linear discriminant analysis.
3. *Order.* The directions between the cluster means come first, the most discriminating one first; then those of the
   largest remaining variance. The first dimensions are therefore a shorter representation of the same model.
4. *Length.* In many dimensions the length of a whitened example says how sharp or cluttered it is and little of its
   class, while it decides who is whose neighbour. So all examples may be brought to one length, on a sphere around the
   mean of the data.

`choose_start` takes power, shrinkage, number of clusters and length from the training data alone: those whose votes
(section 3.3) have the least log-loss on examples that were held out.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from magnet.errors import UserError
from magnet.neighbours import check_whole, squared_distances
from magnet.votes import CLUSTERS, Calibrated, Examples, Folds, cluster

WIDE = 2048  # more features than this are first reduced to NARROW principal components
NARROW = 1024
BLOCK = 8192  # rows that are held in double precision at a time

POWERS = (0.5, 1.0)
SHRINKAGES = (0.1, 0.4, 0.7)
WIDTHS = (0.5, 1.0)  # of the kernel

FEWEST_DIMS = 32  # in a space of fewer the length of an example tells much, and stays as it is

LANDMARKS = 256  # at most
WIDEST = 256  # features; with more, a linear map is enough, and no kernel is tried
MOST_ROWS = 20_000  # examples; with more, no kernel is tried
LEAST = 1e-5  # of the largest eigenvalue of the kernel: smaller ones are rounding of the landmarks and weights


class Landmarks(NamedTuple):
    """Gaussian kernel features, which tell apart what no linear map can, such as a class inside another.

    An example is described by how near it is to some landmarks, examples of the training data: ``exp(-|w (x - l)|^2)``
    for each landmark l, where the weights w divide every feature by its standard deviation, and all of them by
    ``width`` times the median distance between landmarks. The rest of the start works on these features as it does on
    others; in the coordinates of `root` their products are those of the kernel (Nystroem's approximation).
    """

    points: Tensor  # (m, d)
    weights: Tensor  # (d,)

    @classmethod
    def fit(cls, x: Tensor, width: float, seed: int, count: int = LANDMARKS) -> "Landmarks":
        """Some of the rows x (N, d) float64, drawn by the seed.

        >>> Landmarks.fit(torch.eye(2, dtype=torch.float64), width=1.0, seed=0)(torch.eye(2)).round(decimals=2)
        tensor([[1.0000, 0.6100],
                [0.6100, 1.0000]], dtype=torch.float64)
        """
        spread, largest = x.std(dim=0, correction=0), x.abs().amax(dim=0)
        weights = torch.where(spread > 1e-12 * largest, 1 / spread, 0.0)  # constant but for rounding: says nothing
        points = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:count]]
        far = squared_distances((points - points.mean(dim=0)) * weights).flatten()
        far = far[far > 1e-9 * far.max()]
        middle = far.median() if len(far) else far.new_ones(())
        return cls(points, weights / (2 * middle).sqrt() / width)

    def __call__(self, x: Tensor) -> Tensor:
        """Features (n, m) of x (n, d), between 0 and 1."""
        return gaussian(x, self.points, self.weights)

    def root(self) -> Tensor:
        """A map (m, q) so that products of ``self(x) @ root`` are values of the kernel, exact between landmarks."""
        values, vectors = torch.linalg.eigh(self(self.points))
        kept = values > LEAST * values[-1]
        found: Tensor = vectors[:, kept] * values[kept].rsqrt()
        return found


def gaussian(x: Tensor, points: Tensor, weights: Tensor) -> Tensor:
    """``exp(-|weights (x - points)|^2)``: (n, m) from (n, d), (m, d) and (d,); double where the device has it.

    Where landmarks lie close together a map of these features has large weights of both signs, which cancel: computed
    in single precision, it would lose several digits.
    """
    middle = points.mean(dim=0)  # distances are the same from here, and keep their digits
    distances = squared_distances((x - middle) * weights, (points - middle) * weights)
    return torch.exp(-distances.clamp_min(0))


def raised(x: Tensor, power: float) -> Tensor:
    """``x^power`` element by element; negative values count as zero unless the power is 1."""
    if power == 1:
        return x
    return x.clamp_min(0).sqrt() if power == 0.5 else x.clamp_min(0).pow(power)


class Start(NamedTuple):
    """A fitted start: ``r = components (x^power - mean)``, or ``components (landmarks(x^power) - mean)``.

    With a ``length`` l above 0, representations of that length are made of it, which are then mapped linearly:
    ``map (l r / |r|)``.

    >>> x = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
    >>> start = Start(1.0, torch.zeros(2).double(), torch.eye(2).double()).with_length(10.0)
    >>> start(x), start.then(torch.tensor([[1.0, 1.0]]).double())(x)
    (tensor([[6., 8.]], dtype=torch.float64), tensor([[14.]], dtype=torch.float64))
    """

    power: float
    mean: Tensor  # (d,) of x^power, or (m,) of its m kernel features
    components: Tensor  # (k, d) or (k, m)
    landmarks: Landmarks | None = None
    length: float = 0.0
    map: Tensor | None = None  # (k, k), where there is a length

    def __call__(self, x: Tensor) -> Tensor:
        """Representations (n, k) of x (n, d)."""
        z = raised(x, self.power)
        r = ((z if self.landmarks is None else self.landmarks(z)) - self.mean) @ self.components.T
        return r if self.map is None else of_length(r, self.length) @ self.map.T

    def with_length(self, length: float) -> "Start":
        """The same with representations of one length."""
        return self._replace(length=length, map=torch.eye(len(self.components), dtype=self.components.dtype))

    def then(self, matrix: Tensor) -> "Start":
        """The same, followed by a linear map (q, k)."""
        if self.map is None:
            return self._replace(components=matrix @ self.components)
        return self._replace(map=matrix @ self.map)


def of_length(r: Tensor, length: float | Tensor) -> Tensor:
    """The rows r (n, k), each brought to one length; zero stays zero."""
    return torch.nn.functional.normalize(r, dim=1) * length


class WithinClusters:
    """The spectrum of the variation inside clusters, from which `start` makes maps of any shrinkage.

    Args:
        x: (N, d) features.
        labels: (N,) class ids 0..C-1.
        n_clusters: K of a class of mean size (`magnet.votes.cluster`).
        power: p.
        standardize: whether each feature is divided by its own standard deviation; else the sizes of the features
            stay what they are.
        seed: of the clustering, and of the randomised reduction of very wide data.

    Examples:
        >>> x = torch.tensor([[0.0, 0.0], [0.0, 4.0], [2.0, 0.0], [2.0, 4.0]], dtype=torch.float64)
        >>> spectrum = WithinClusters(x, torch.tensor([0, 0, 1, 1]))
        >>> spectrum.start(shrinkage=0.5, dim=1)(x).flatten().abs().round(decimals=2)
        tensor([0.7100, 0.7100, 0.7100, 0.7100], dtype=torch.float64)

        The first direction is the one that tells the classes apart, although the other one varies more.
    """

    def __init__(
        self,
        x: Tensor,
        labels: Tensor,
        n_clusters: int = 1,
        *,
        power: float = 1.0,
        standardize: bool = False,
        seed: int = 0,
    ) -> None:
        self.power = power
        rows, width = x.shape
        blocks = [slice(at, at + BLOCK) for at in range(0, rows, BLOCK)]
        # Sums in double precision, block by block: a large table is never copied whole.
        total, largest = x.new_zeros(width, dtype=torch.float64), x.new_zeros(width, dtype=torch.float64)
        for block in blocks:
            z = raised(x[block].double(), power)
            total += z.sum(dim=0)
            largest = torch.maximum(largest, z.abs().amax(dim=0))
        self.mean = total / rows
        squares = torch.zeros_like(total)
        for block in blocks:
            squares += (raised(x[block].double(), power) - self.mean).square().sum(dim=0)
        spread = (squares / rows).sqrt()
        # A feature that is constant but for rounding says nothing, and must not be blown up.
        constant = spread <= 1e-12 * largest
        scale = spread.masked_fill(constant, torch.inf) if standardize else torch.ones_like(spread)
        self._basis: Tensor | None = None  # (d, q) of a reduction; None: each feature by its scale
        self._scale = scale
        if width > min(WIDE, rows):
            self._basis = self._principal(x, seed)
        only = self.coordinates(x) if rows <= BLOCK else None

        def coordinates(block: slice) -> Tensor:
            return self.coordinates(x[block]) if only is None else only

        groups, count = labels, int(labels.max()) + 1
        if n_clusters > 1:
            index = cluster(torch.cat([coordinates(block).float() for block in blocks]), labels, n_clusters, seed)
            groups, count = index.assignments, len(index)
        sizes = torch.bincount(groups, minlength=count).double().clamp_min(1)
        width = len(scale) if self._basis is None else self._basis.shape[1]
        means = torch.zeros(count, width, dtype=torch.float64)
        scatter = torch.zeros(width, width, dtype=torch.float64)
        around = 0.0  # the sum of |z|^2 around the mean of all
        for block in blocks:
            means.index_add_(0, groups[block], coordinates(block))
        means /= sizes[:, None]
        for block in blocks:
            z = coordinates(block)
            around += float(z.square().sum())
            z = z - means[groups[block]]
            scatter.addmm_(z.T, z)
        scatter /= max(rows - count, 1)
        if not float(scatter.trace()) > 1e-12 * around / rows:  # each cluster is one point: only the means vary
            scatter = (sizes[:, None] * means).T @ means / rows
        if not float(scatter.trace()) > 0:
            scatter = torch.eye(width, dtype=torch.float64)
        values, self._vectors = torch.linalg.eigh(scatter)
        self._values = values.clamp_min(0)
        self._means = sizes.sqrt()[:, None] * (means @ self._vectors)  # (J, q), weighted for the directions below

    def start(self, shrinkage: float, dim: int) -> Start:
        """The start of this shrinkage, with k = min(dim, features) dimensions."""
        inner = self.whitening(shrinkage, dim)
        components = inner / self._scale[:, None] if self._basis is None else self._basis @ inner
        return Start(self.power, self.mean, components.T.contiguous())

    def whitening(self, shrinkage: float, dim: int) -> Tensor:
        """The map (q, k) of the start of this shrinkage, which is applied to `coordinates`."""
        level = self._values.mean()
        whitening = ((1 - shrinkage) * self._values + shrinkage * level).clamp_min(1e-9 * level).rsqrt()
        # The right singular vectors, by way of the smaller of the two products: clusters may be many.
        means = self._means * whitening
        if len(means) > means.shape[1]:
            strength, between = torch.linalg.eigh(means.T @ means)
            strength, between = strength.clamp_min(0).sqrt().flip(0), between.flip(1).T
        else:
            _, strength, between = torch.linalg.svd(means, full_matrices=False)
        between = between[strength > 1e-7 * strength[0].clamp_min(1e-300)][:dim]
        # Inside clusters the whitened variance grows with the eigenvalue, and those come in ascending order.
        rest = torch.eye(len(self._values), dtype=torch.float64).flip(0)[: max(0, dim - len(between))]
        directions, _ = torch.linalg.qr(torch.cat([between, rest]).T)
        inner: Tensor = (self._vectors * whitening) @ directions
        return inner

    def coordinates(self, x: Tensor) -> Tensor:
        """The rows of x (n, d) in the space that is whitened (n, q), double precision."""
        z = raised(x.double(), self.power) - self.mean
        return z / self._scale if self._basis is None else z @ self._basis

    def _principal(self, x: Tensor, seed: int) -> Tensor:
        """A basis (d, q) of the examples, or of the principal components of very wide data; scales included."""
        z = (raised(x.double(), self.power) - self.mean) / self._scale
        rows, width = x.shape
        if width <= WIDE:  # fewer examples than features: which basis of the examples it is makes no difference
            basis, _ = torch.linalg.qr(z.T)
        else:
            from sklearn.decomposition import PCA

            basis = torch.as_tensor(PCA(min(rows, NARROW), random_state=seed).fit(z.numpy()).components_).double().T
        scaled: Tensor = basis / self._scale[:, None]
        return scaled


class StartSettings(NamedTuple):
    """The settings of a start (see `WithinClusters`)."""

    power: float
    standardize: bool
    shrinkage: float
    start_clusters: int = 1  # inside which the variation is noise; 1: whole classes
    kernel_width: float = 0.0  # 0: no kernel features
    unit_length: bool = False  # whether representations have one length

    def fit(self, data: Examples, dim: int, seed: int) -> Start:
        """The start of these examples, with ``dim`` dimensions at most.

        With unit length all representations have one length, the mean length that they would have without it.
        """
        if self.unit_length:
            start = self._replace(unit_length=False).fit(data, dim, seed)
            squares = [start(x.double()).square().sum() for x in data.x.split(BLOCK)]
            return start.with_length(float(torch.stack(squares).sum() / len(data.x)) ** 0.5 or 1.0)
        power, clusters = self.power, self.start_clusters
        if not self.kernel_width:
            spectrum = WithinClusters(*data, clusters, power=power, standardize=self.standardize, seed=seed)
            return spectrum.start(self.shrinkage, dim)
        z = raised(data.x.double(), power)
        landmarks = Landmarks.fit(z, self.kernel_width, seed)
        features, root = landmarks(z), landmarks.root()
        start = WithinClusters(features @ root, data.labels, clusters, seed=seed).start(self.shrinkage, dim)
        return Start(power, features.mean(dim=0), start.components @ root.T, landmarks)


def in_kernel(folds: Folds, power: float, width: float) -> Folds:
    """The folds with kernel features for x, in the coordinates of `Landmarks.root`; landmarks are from the parts."""
    parts: list[Examples] = []
    held: list[Examples] = []
    for part, out in zip(folds.parts, folds.held, strict=True):
        landmarks = Landmarks.fit(raised(part.x, power), width, folds.seed)
        root = landmarks.root()
        for examples, found in ((part, parts), (out, held)):
            found.append(Examples(landmarks(raised(examples.x, power)) @ root, examples.labels))
    return folds._replace(parts=parts, held=held)


class Choice(NamedTuple):
    """The settings of a start, the held-out log-loss of its votes, and its representations of the folds."""

    votes: Calibrated  # held out
    settings: StartSettings
    n_clusters: int  # that vote
    parts: list[Tensor]  # (n, k) of each fold
    held: list[Tensor]


def _whitened(
    folds: Folds, shrinkages: Sequence[float], dim: int, power: float, scaled: bool, clusters: int
) -> list[tuple[list[Tensor], list[Tensor]]]:
    """For each shrinkage, the representations (n, k) of the parts of the folds and of the held-out examples."""
    found: list[tuple[list[Tensor], list[Tensor]]] = [([], []) for _ in shrinkages]
    for part, held in zip(folds.parts, folds.held, strict=True):
        spectrum = WithinClusters(*part, clusters, power=power, standardize=scaled, seed=folds.seed)
        of_part, of_held = spectrum.coordinates(part.x), spectrum.coordinates(held.x)
        for shrinkage, (parts, rest) in zip(shrinkages, found, strict=True):
            whitening = spectrum.whitening(shrinkage, dim)
            parts.append(of_part @ whitening)
            rest.append(of_held @ whitening)
    return found


def choose_start(
    folds: Folds,
    *,
    powers: Sequence[float] = POWERS,
    standardize: Sequence[bool] = (False, True),
    shrinkages: Sequence[float] = SHRINKAGES,
    clusters: Sequence[int] = CLUSTERS,
    start_clusters: int | None = None,
    unit_length: Sequence[bool] = (True, False),
    dim: int = 512,
) -> list[Choice]:
    """The start whose votes have the least held-out log-loss, with each shrinkage, the best first.

    One setting is chosen after the other: the length, since examples of many lengths would need many clusters; the
    number of clusters, which grows until two numbers in a row do not help; then the power; then whether features are
    standardised; then, if these changed, the number of clusters once more, among its neighbours. Each is judged with
    its best shrinkage. More clusters, or a later one of the ``powers`` or ``unit_length``, must lower the log-loss by
    more than its standard error; so must whitening within clusters instead of whole classes, whose covariance is known
    better. Powers are judged by refined centres, since these make up for some of what another power is worth to
    means. Training may need more shrinkage than the start alone does: let it choose among them. A power other than 1
    is for non-negative features only.

    Args:
        folds: the examples to fit starts to, and to judge them by.
        powers, standardize, shrinkages, clusters: the candidates.
        start_clusters: K of the whitening; None: the K of the votes or 1.
        unit_length: the candidates; with fewer than 32 dimensions, True is tried only if it is the only one.
        dim: k, of the representations.
    """
    whitened = partial(_whitened, folds, shrinkages, dim)
    within_classes = lru_cache(maxsize=1)(partial(whitened, clusters=1))  # they are used for every number of clusters

    def judged(power: float, scaled: bool, n_clusters: int, within: int) -> list[Choice]:
        spaces = within_classes(power, scaled) if within == 1 else whitened(power, scaled, within)
        found = []
        for shrinkage, (parts, held) in zip(shrinkages, spaces, strict=True):
            if unit:
                parts, held = _of_unit_length(parts, held)
            votes = folds.judge(folds.cluster(parts, n_clusters, restarts=1), held)
            settings = StartSettings(power, scaled, shrinkage, within, unit_length=unit)
            found.append(Choice(votes, settings, n_clusters, parts, held))
        return sorted(found, key=lambda choice: choice.votes.log_loss)

    def tried(power: float, scaled: bool, n_clusters: int) -> list[Choice]:
        if start_clusters is not None:
            return judged(power, scaled, n_clusters, start_clusters)
        classes = judged(power, scaled, n_clusters, 1)
        if n_clusters == 1:
            return classes
        within = judged(power, scaled, n_clusters, n_clusters)
        return within if within[0].votes.clearly_below(classes[0].votes) else classes

    def refined(choice: Choice) -> Calibrated:
        return folds.judge_refined(choice.parts, choice.held, choice.n_clusters)

    negative = any(bool((part.x < 0).any()) for part in folds.parts)
    powers = [power for power in powers if power == 1 or not negative] or [1.0]
    few = min(dim, folds.parts[0].x.shape[1], len(folds.parts[0].x)) < FEWEST_DIMS
    unit = unit_length[0] and not (few and len(unit_length) > 1)
    best = tried(powers[0], standardize[0], clusters[0])
    if len(unit_length) > 1 and not few:
        unit = not unit
        other = tried(powers[0], standardize[0], clusters[0])
        best = other if other[0].votes.clearly_below(best[0].votes) else best
        unit = best[0].settings.unit_length
    misses = 0
    for n_clusters in clusters[1:]:
        more = tried(powers[0], standardize[0], n_clusters)
        better = more[0].votes.clearly_below(best[0].votes)
        best, misses = (more, 0) if better else (best, misses + 1)
        if misses == 2:
            break
    place = clusters.index(best[0].n_clusters)
    for power in powers[1:]:
        other = tried(power, standardize[0], clusters[place])
        best = other if refined(other[0]).clearly_below(refined(best[0])) else best
    for scaled in standardize[1:]:
        other = tried(best[0].settings.power, scaled, clusters[place])
        best = min(best, other, key=lambda choices: choices[0].votes.log_loss)
    power, scaled, *_ = best[0].settings
    if power != powers[0] or scaled != standardize[0]:
        for n_clusters in clusters[max(0, place - 1) : place]:
            fewer = tried(power, scaled, n_clusters)
            best = best if best[0].votes.clearly_below(fewer[0].votes) else fewer
        for n_clusters in clusters[place + 1 : place + 2]:
            more = tried(power, scaled, n_clusters)
            best = more if more[0].votes.clearly_below(best[0].votes) else best
    return best


def _of_unit_length(parts: list[Tensor], held: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """The representations of the folds, all of one length in each: the mean length of its part."""
    lengths = [float(part.square().sum(dim=1).mean().sqrt()) or 1.0 for part in parts]
    equal = [[of_length(r, length) for r, length in zip(group, lengths, strict=True)] for group in (parts, held)]
    return equal[0], equal[1]


def order_directions(representations: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """A rotation (k, k) that puts the directions between the means of classes first, the strongest of them first.

    Args:
        representations: (N, k) float64.
        labels: (N,) class ids.
        weights: (N,) how many examples each row stands for; None: one.

    Examples:
        Two classes that differ in the second feature, while the first one varies more:

        >>> r = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 2.0], [4.0, 2.0]], dtype=torch.float64)
        >>> order_directions(r, torch.tensor([0, 0, 1, 1])).abs().round(decimals=3)
        tensor([[0., 1.],
                [1., 0.]], dtype=torch.float64)
    """
    weights = torch.ones(len(labels), dtype=torch.float64) if weights is None else weights.double()
    counts = torch.bincount(labels, weights).clamp_min(1)
    weighted = weights[:, None] * representations
    means = representations.new_zeros(len(counts), representations.shape[1]).index_add(0, labels, weighted)
    means = means / counts[:, None]
    centred = means - weighted.sum(dim=0) / weights.sum()
    between = (counts[:, None] * centred).T @ centred
    within = representations - means[labels]
    # What the classes do not tell apart is ordered by its variance: their part of the sum decides first.
    within_scatter = (weights[:, None] * within).T @ within
    scale = float(between.trace()) or 1.0
    _, vectors = torch.linalg.eigh(between / scale + 1e-9 * within_scatter / (float(within_scatter.trace()) or 1.0))
    rotation: Tensor = vectors.flip(1).T.contiguous()
    return rotation


def first_directions(dims: int, representations: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
    """The first ``dims`` rows (dims, k) of `order_directions`, float32, for shorter representations of a model."""
    width = representations.shape[1]
    if not 1 <= check_whole(dims, "dims", -(2**62)) <= width:
        raise UserError(f"the representation has {width} dimensions: --dims must be 1 to {width}; found {dims}")
    order: Tensor = order_directions(representations.double(), labels, weights)
    return order[:dims].float()
