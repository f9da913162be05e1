"""ClusterIndex: what the representation space looks like now."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from magnet.clustering import ClustersPerClass, KMeansResult, kmeans_per_class, order_by_group
from magnet.errors import UserError
from magnet.files import Stored, check_layout, read_tensors, write_tensors
from magnet.neighbours import (
    check_ids,
    check_number,
    check_representations,
    check_whole,
    nearest,
    nearest_of_chunk,
    split_rows,
)
from magnet.tree import FEWEST, CentreTree, sample_of

_FORMAT = "magnet-cluster-index/1"
LAYOUT = {"centres": "float J d", "centre_labels": "int J", "assignments": "int N", "variance": "float"}  # of a file


class ClusterIndex:
    """The clusters of every class (section 3.1): an immutable picture of the space at one moment.

    Attributes:
        centres: (J, d) means of the clusters.
        centre_labels: (J,) class of each cluster.
        assignments: (N,) cluster of each example, ids into ``centres``.
        variance: () ``sum |r - mu(r)|^2 / (N - 1)``.
        sizes: (J,) members of each cluster.
        order: (N,) the examples, cluster by cluster, ascending in each.
        iterations: K-means iterations that the slowest class needed (0 when not made by `fit`).

    Examples:
        Three classes on a line, the first of two modes; the nearest cluster of another class to that at 20.5 is at 4.5.

        >>> points = torch.tensor([[0.0], [1.0], [20.0], [21.0], [4.0], [5.0], [40.0], [41.0]])
        >>> index = ClusterIndex.fit(points, torch.tensor([0, 0, 0, 0, 1, 1, 2, 2]), [2, 1, 1])
        >>> index
        ClusterIndex(4 clusters of 3 classes over 8 examples, d=1, variance=0.2857)
        >>> second_mode = int(index.assignments[2])
        >>> index.members(second_mode), index.centres[index.impostors(second_mode, 1)]
        (tensor([2, 3]), tensor([[4.5000]]))
    """

    def __init__(
        self, centres: Tensor, centre_labels: Tensor, assignments: Tensor, variance: Tensor, iterations: int = 0
    ) -> None:
        check_representations(centres, "centres")
        self.centres = centres
        self.centre_labels = check_ids(centre_labels, len(centres), "centre_labels", "centres")
        self.assignments = assignments = check_ids(assignments, None, "assignments", "examples")
        check_number(variance, "variance", 0, 1e300)
        self.variance = torch.as_tensor(variance, dtype=centres.dtype, device=centres.device).reshape(())
        self.iterations = iterations
        self.sizes = _sizes(assignments, len(centres))
        self.order = order_by_group(assignments, self.sizes)
        self._starts = self.sizes.cumsum(0) - self.sizes

    @classmethod
    def fit(
        cls,
        representations: Tensor,
        labels: Tensor,
        clusters_per_class: ClustersPerClass = 8,
        *,
        seed: int = 0,
        restarts: int = 3,
        max_iterations: int = 100,
    ) -> Self:
        """Cluster every class by itself with K-means++ (see `magnet.clustering.kmeans_per_class`).

        Args:
            representations: (N, d), all computed at one moment.
            labels: (N,) integers.
            clusters_per_class: K, one for all or one for each class.
            seed: the same seed gives the same index.
            restarts: K-means++ starts, of which each class keeps its best.
            max_iterations: of Lloyd's algorithm.
        """
        check_representations(representations, finite=False)  # K-means looks at the entries
        labels = check_ids(labels, len(representations), "labels")
        if bool((labels == labels[0]).all()):
            raise ValueError(
                f"the labels hold one class only ({int(labels[0])}); an index needs two or more, "
                "since its clusters are set against those of other classes"
            )
        result = kmeans_per_class(
            representations, labels, clusters_per_class, seed=seed, restarts=restarts, max_iterations=max_iterations
        )
        variance = result.inertia / (len(representations) - 1)
        return cls(result.centres, result.centre_labels, result.assignments, variance, result.iterations)

    @classmethod
    def joined(cls, shards: Iterable[tuple[Tensor, KMeansResult]], examples: int) -> Self:
        """What `fit` gives for all N examples, from shards of them that were clustered apart.

        K-means of a class does not depend on the others, so that classes can be shared out in space (among processes)
        or in time (where the representations of all would fill the memory).

        Args:
            shards: for each the places (n,) of its examples among all N, and their clusters. A shard has whole classes.
                Each is taken when the one before it has been copied, so that it may be made only then.
            examples: N.

        Examples:
            >>> points, labels = torch.tensor([[0.0], [9.0], [1.0], [8.0]]), torch.tensor([0, 1, 0, 1])
            >>> shards = [labels.eq(c).nonzero().flatten() for c in (1, 0)]
            >>> found = [(places, kmeans_per_class(points[places], labels[places], 1)) for places in shards]
            >>> ClusterIndex.joined(found, 4) == ClusterIndex.fit(points, labels, 1)
            True
        """
        assignments = torch.empty(examples, dtype=torch.long)
        found, clusters = [], 0
        for places, own in shards:
            assignments[places] = own.assignments + clusters
            clusters += len(own.centres)
            found.append(own._replace(assignments=own.assignments[:0]))  # it has been copied
        centres, labels = torch.cat([own.centres for own in found]), torch.cat([own.centre_labels for own in found])
        if bool((labels.diff() < 0).any()):  # centres are ordered by class, as a single K-means has them
            by_class = labels.argsort(stable=True)
            centres, labels, assignments = centres[by_class], labels[by_class], by_class.argsort()[assignments]
        variance = torch.stack([own.inertia for own in found]).sum() / (examples - 1)
        return cls(centres, labels, assignments, variance, max(own.iterations for own in found))

    def grown(
        self,
        representations: Tensor,
        labels: Tensor,
        *,
        reach: float,
        clusters_per_class: int = 8,
        examples_per_cluster: int = 1,
    ) -> Self:
        """The index with new examples in it; the clusters that it has keep their ids, and its variance stays.

        An example joins the nearest cluster of its class if that is within reach, and the centre moves to the mean of
        all members. The others, and all examples of a new class, make new clusters.

        Args:
            representations: (n, d) of the new examples, under the network that the index was made with.
            labels: (n,) their classes, known or new.
            reach: the distance within which an example belongs to a cluster.
            clusters_per_class: the most new clusters of a class.
            examples_per_cluster: that a new cluster has on average, at least; a class with fewer makes one cluster.

        Examples:
            >>> index = ClusterIndex.fit(torch.tensor([[0.0], [1.0], [9.0], [10.0]]), torch.tensor([0, 0, 1, 1]), 1)
            >>> index.centres.flatten()
            tensor([0.5000, 9.5000])
            >>> grown = index.grown(torch.tensor([[2.0], [5.0]]), torch.tensor([0, 7]), reach=2.0)
            >>> grown.centres.flatten(), grown.centre_labels
            (tensor([1.0000, 9.5000, 5.0000]), tensor([0, 1, 7]))
        """
        check_representations(representations)
        if representations.shape[1] != self.centres.shape[1]:
            raise ValueError(
                f"representations have {representations.shape[1]} dimensions; the index has {self.centres.shape[1]}"
            )
        labels = check_ids(labels, len(representations), "labels").long()
        reach = check_number(reach, "reach", 0)
        clusters_per_class = check_whole(clusters_per_class, "clusters_per_class", 1)
        examples_per_cluster = check_whole(examples_per_cluster, "examples_per_cluster", 1)
        representations = representations.to(self.centres)
        squares = representations.new_full((len(labels),), torch.inf)  # to the nearest centre of the own class
        place = torch.zeros_like(labels)
        for c in labels.unique():
            mine = (labels == c).nonzero().squeeze(1)
            theirs = (self.centre_labels == c).nonzero().squeeze(1)
            if len(theirs):
                found, local = nearest(representations[mine], self.centres[theirs], 1)
                squares[mine], place[mine] = found[:, 0].to(squares), theirs[local[:, 0]]
        joins = (squares.sqrt() <= reach) & squares.isfinite()  # a new class has no cluster to join
        joined = place[joins]
        sizes = self.sizes.index_add(0, joined, torch.ones_like(joined))
        sums = (self.centres * self.sizes[:, None]).index_add(0, joined, representations[joins])
        centres, centre_labels = sums / sizes[:, None], self.centre_labels
        if not bool(joins.all()):
            rest = labels[~joins]
            _, counts = rest.unique(return_counts=True)
            most = (counts // examples_per_cluster).clamp(1, clusters_per_class)
            new = kmeans_per_class(representations[~joins], rest, most.tolist())
            place[~joins] = new.assignments + len(centres)
            centres = torch.cat([centres, new.centres.to(centres)])
            centre_labels = torch.cat([centre_labels, new.centre_labels])
        return type(self)(centres, centre_labels, torch.cat([self.assignments, place]), self.variance)

    @property
    def inertia(self) -> Tensor:
        """The sum of squared distances to the own centre ()."""
        return self.variance * (len(self.assignments) - 1)

    def __len__(self) -> int:
        return len(self.centres)

    def __repr__(self) -> str:
        classes = len(self.centre_labels.unique())
        return (
            f"ClusterIndex({len(self)} clusters of {classes} classes over {len(self.assignments)} examples, "
            f"d={self.centres.shape[1]}, variance={float(self.variance):.4g})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterIndex):
            return NotImplemented
        return all(torch.equal(getattr(self, name), getattr(other, name)) for name in LAYOUT)

    __hash__ = None  # type: ignore[assignment]

    def members(self, j: int) -> Tensor:
        """The examples of cluster j, in ascending order (n,)."""
        self._check_cluster(j)
        start, size = int(self._starts[j]), int(self.sizes[j])
        return self.order[start : start + size].long()

    def impostors(self, j: int, m: int) -> Tensor:
        """The m nearest centres of other classes than cluster j's, nearest first (<= m,)."""
        self._check_cluster(j)
        row = self.nearest_impostors(m, torch.tensor([j], device=self.centres.device))[0]
        return row[row >= 0]

    def nearest_impostors(self, m: int, clusters: Tensor | None = None, *, exact: bool = True) -> Tensor:
        """`impostors` of many clusters (all by default), (n, m); -1 where there are fewer than m.

        In chunks: memory stays bounded however many centres there are.

        Args:
            m: how many.
            clusters: (n,) ids.
            exact: False finds nearly all of them (99 %) in a fraction of the time where there are tens of thousands of
                clusters with enough structure for that (`magnet.tree`); the same every time.
        """
        m = check_whole(m, "m", 0, 10**6)
        if clusters is None:
            wanted = torch.arange(len(self), device=self.centres.device)
        else:
            wanted = check_ids(clusters, None, "clusters", "answers").long()
            if len(wanted) and not 0 <= int(wanted.min()) <= int(wanted.max()) < len(self):
                raise IndexError(
                    f"clusters must lie in 0..{len(self) - 1}; found {int(wanted.min())}..{int(wanted.max())}"
                )
        table = wanted.new_full((len(wanted), m), -1)
        if m == 0 or len(wanted) == 0:
            return table
        labels = self.centre_labels
        if not exact and len(self) >= FEWEST:
            tree, sample = CentreTree(self.centres), sample_of(self.centres)
            beam = tree.beam(self.centres[sample], m, labels[sample], labels)
            if beam is not None:
                found = tree.nearest(self.centres[wanted], m, beam, labels[wanted], labels)[1]
                table[:, : found.shape[1]] = found
                return table
        for rows in split_rows(torch.arange(len(wanted), device=wanted.device), len(self)):
            ids = wanted[rows]
            distances, near = nearest_of_chunk(self.centres[ids], self.centres, m, labels[ids], labels)
            table[rows, : near.shape[1]] = near.masked_fill(distances.isinf(), -1)
        return table

    def to(self, device: torch.device | str) -> Self:
        """The same index on another device."""
        return self.of_tensors({name: tensor.to(device) for name, tensor in self.tensors().items()}, self.iterations)

    def tensors(self) -> dict[str, Tensor]:
        """The four tensors that make the index, by name."""
        return {name: getattr(self, name) for name in LAYOUT}

    @classmethod
    def of_tensors(cls, tensors: Mapping[str, Tensor], iterations: int = 0) -> Self:
        """The index that the four tensors make."""
        names = ("centres", "centre_labels", "assignments", "variance")
        centres, labels, assignments, variance = (tensors[name] for name in names)
        return cls(centres, labels, assignments, variance, iterations)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the index as one safetensors file, whole or not at all; returns the digest of its content."""
        return write_tensors(path, self.tensors(), {"format": _FORMAT, "iterations": str(self.iterations)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an index written by `save`; nothing in the file is executed."""
        if not Path(path).is_file():
            raise UserError(f"no index at {path}: expected a file written by ClusterIndex.save")
        return cls.of(read_tensors(path, LAYOUT, form=_FORMAT, what="an index"), path)

    @classmethod
    def of(cls, stored: Stored, path: str | os.PathLike[str]) -> Self:
        """The index that was read from the file ``path``, its parts checked."""
        about, tensors = stored.about, stored.tensors
        check_layout(tensors, LAYOUT, str(path))
        iterations = about.get("iterations", "")
        if not iterations.isdecimal() or len(iterations) > 9 or float(tensors["variance"]) < 0:
            raise UserError(f"{path} is not an index: iterations {iterations[:20]!r}, variance {tensors['variance']}")
        try:
            return cls.of_tensors(tensors, int(iterations))
        except (ValueError, TypeError) as error:
            raise UserError(f"{path} cannot be used as an index ({error})") from error

    def _check_cluster(self, j: int) -> None:
        if not 0 <= check_whole(j, "cluster", -(2**62)) < len(self):
            raise IndexError(f"cluster {j} is not in 0..{len(self) - 1}")


def _sizes(assignments: Tensor, clusters: int) -> Tensor:
    """How many examples each cluster has (J,); raises unless each has one and no other id is named."""
    if len(assignments) and int(assignments.min()) >= 0 and int(assignments.max()) == clusters - 1:
        sizes = torch.bincount(assignments)
        if bool((sizes > 0).all()):
            return sizes
    found = assignments.unique().tolist()
    raise ValueError(
        f"assignments must name each of the {clusters} centres at least once and no other; "
        f"found {len(found)} ids" + (f", {found[0]}..{found[-1]}" if found else "")
    )
