"""Whatever is wrong with the input, the error names what was found."""

import math

import numpy as np
import pytest
import torch

from magnet import (
    ClusterIndex,
    MagnetLoss,
    NearestClusters,
    NeighbourhoodSampler,
    SoftNeighbours,
    magnet_loss,
    magnet_objective,
)
from magnet.clustering import kmeans_per_class

X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12) % 3
INDEX = ClusterIndex.fit(X, LABELS, 2)

# Everything that takes representations (n, d) and labels (n,).
TAKERS = {
    "magnet_loss": lambda x, y: magnet_loss(x, y, y),
    "MagnetLoss": lambda x, y: MagnetLoss()(x, y, y),
    "magnet_objective": lambda x, y: magnet_objective(x, y, None, torch.arange(3)),
    "kmeans_per_class": lambda x, y: kmeans_per_class(x, y, 2),
    "ClusterIndex.fit": lambda x, y: ClusterIndex.fit(x, y, 2),
    "SoftNeighbours": lambda x, y: SoftNeighbours(x, y, variance=1.0),
}
takers = pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS.keys())


def spoilt(value):
    x = X.clone()
    x[4, 1] = x[7, 0] = x[7, 2] = value
    return x


@takers
def test_good_input_is_taken_and_left_as_it_was(take):
    x, labels = X.clone(), LABELS.clone()
    assert take(x, labels) is not None
    assert torch.equal(x, X)
    assert torch.equal(labels, LABELS)


@takers
@pytest.mark.parametrize(
    ("x", "found"),
    [(X[0], r"\(3,\)"), (X[None], r"\(1, 12, 3\)"), (X[:0], r"\(0, 3\)"), (X[:, :0], r"\(12, 0\)")],
    ids=["vector", "three axes", "no rows", "no columns"],
)
def test_wrong_shapes_of_representations_are_named(take, x, found):
    with pytest.raises(ValueError, match=rf"representations must have shape \(n, d\).*found {found}"):
        take(x, LABELS)


@takers
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_in_representations_are_counted(take, value):
    with pytest.raises(ValueError, match="NaN or infinity in 2 of 12 rows"):
        take(spoilt(value), LABELS)


@takers
def test_infinities_of_both_signs_are_found(take):
    x = spoilt(math.inf)
    x[0, 0] = -math.inf
    with pytest.raises(ValueError, match="in 3 of 12 rows"):
        take(x, LABELS)


@takers
@pytest.mark.parametrize(("size", "found"), [(1e20, r"exceed 1e\+15"), (1e-20, "all be below 1e-12")], ids=str)
def test_representations_whose_squares_overflow_or_vanish_are_an_error_in_single_precision(take, size, found):
    with pytest.raises(ValueError, match=rf"must not {found}, or squared distances .*; found .*give float64"):
        take(X * size, LABELS)
    take(X.double() * size, LABELS)


@pytest.mark.parametrize("size", [1e14, 1e-11])
def test_large_and_small_representations_give_the_answers_of_any_other_size(size):
    size = 2.0 ** round(math.log2(size))  # which changes no digit
    narrow = X * torch.tensor([1.0, 1.0, 1e-3])
    before, after = (magnet_loss(x, LABELS, LABELS) for x in (narrow, size * narrow))
    torch.testing.assert_close(after.per_example, before.per_example)
    torch.testing.assert_close(after.variance, before.variance * size**2)
    before, after = (magnet_objective(x, LABELS, None, torch.arange(3)) for x in (narrow, size * narrow))
    torch.testing.assert_close(after.per_example, before.per_example)
    one, other = (ClusterIndex.fit(x, LABELS, 2) for x in (narrow, size * narrow))
    assert torch.equal(one.assignments, other.assignments)
    votes = [NearestClusters(index, 4).predict_proba(s * narrow) for index, s in ((one, 1.0), (other, size))]
    torch.testing.assert_close(votes[1], votes[0])


def test_a_query_may_be_nearer_to_the_origin_than_any_reference():
    p = NearestClusters(INDEX, 4).predict_proba(torch.tensor([[1e-20, 0, 0], [0, 0, 0]]))
    torch.testing.assert_close(p[0], p[1])


@takers
@pytest.mark.parametrize("n", [11, 13])
def test_a_label_too_few_or_too_many_names_both_lengths(take, n):
    with pytest.raises(ValueError, match=rf"shape \(12,\).*found \({n},\)"):
        take(X, torch.arange(n) % 3)


@takers
def test_labels_with_two_axes_are_an_error(take):
    with pytest.raises(ValueError, match=r"found \(12, 1\)"):
        take(X, LABELS[:, None])


@takers
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_non_integer_labels_name_their_type(take, dtype):
    with pytest.raises(TypeError, match=f"must be integers; found {dtype}"):
        take(X, LABELS.to(dtype))


@takers
def test_anything_but_tensors_names_its_type(take):
    with pytest.raises(TypeError, match="found ndarray"):
        take(X.numpy(), LABELS)
    with pytest.raises(TypeError, match="found list"):
        take(X, LABELS.tolist())


@takers
def test_integer_representations_name_their_type(take):
    with pytest.raises(TypeError, match=r"floating point; found torch\.int64"):
        take(X.long(), LABELS)


@pytest.mark.parametrize(
    "take",
    [
        lambda y: magnet_loss(X, torch.arange(12) % 4, y),
        lambda y: magnet_objective(X, torch.arange(12) % 4, None, y[:4]),
        lambda y: ClusterIndex.fit(X, y, 2),
    ],
    ids=["magnet_loss", "magnet_objective", "ClusterIndex.fit"],
)
def test_one_class_only_is_an_error_that_names_the_class(take):
    with pytest.raises(ValueError, match=r"one class only.*7"):
        take(torch.full((12,), 7))


@pytest.mark.parametrize("fit", [kmeans_per_class, ClusterIndex.fit])
@pytest.mark.parametrize(
    ("k", "found"),
    [
        (0, "found 0"),
        (-2, "found -2"),
        (2.5, r"found 2\.5"),
        (True, "found True"),
        ("3", "1 entries for 3"),
        ([1, 2, 0], "found 0"),
        ([1, 2], "2 entries for 3 classes"),
        ({0: 1, 1: 2}, "no entry for 1 classes, the first 2"),
        ({0: 1, 1: 2, 2: -1}, "found -1"),
    ],
    ids=str,
)
def test_a_wrong_k_is_named(fit, k, found):
    with pytest.raises(ValueError, match=f"clusters_per_class.*{found}"):
        fit(X, LABELS, k)


@pytest.mark.parametrize("k", [np.int64(2), [np.int32(2)] * 3])
def test_numpy_integers_are_whole_numbers(k):
    assert ClusterIndex.fit(X, LABELS, k) == INDEX


@pytest.mark.parametrize("restarts", [0, -1])
def test_restarts_must_be_positive(restarts):
    with pytest.raises(ValueError, match=f"restarts must be positive; found {restarts}"):
        kmeans_per_class(X, LABELS, 2, restarts=restarts)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"scaling": 0.0}, r"scaling must be positive; found 0\.0"),
        ({"scaling": math.nan}, "scaling must be positive; found nan"),
        ({"variance": -1.0}, r"variance must be positive; found -1\.0"),
        ({"variance": torch.tensor(0.0)}, r"variance must be positive; found 0\.0"),
        ({"variance": torch.ones(3)}, r"variance must be one number; found a tensor of shape \(3,\)"),
        ({"own_mean": "median"}, "found 'median'"),
        ({"neighbourhoods": torch.zeros(5, dtype=torch.long)}, r"neighbourhoods must have shape \(12,\).*\(5,\)"),
        ({"neighbourhoods": torch.zeros(12)}, r"neighbourhoods must be integers; found torch\.float32"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_options_of_the_objective_are_named(options, found):
    with pytest.raises((ValueError, TypeError), match=found):
        magnet_loss(X, LABELS, LABELS, **options)


def test_clusters_of_the_wrong_length_or_type_are_named():
    with pytest.raises(ValueError, match=r"clusters must have shape \(12,\).*found \(4,\)"):
        magnet_loss(X, LABELS[:4], LABELS)
    with pytest.raises(TypeError, match=r"clusters must be integers; found torch\.float32"):
        magnet_loss(X, LABELS.float(), LABELS)


def test_a_cluster_of_two_classes_is_an_error():
    with pytest.raises(ValueError, match="a cluster holds rows of two classes"):
        magnet_loss(X, torch.arange(12) % 2, LABELS)


def test_the_full_set_objective_names_ids_and_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"0\.\.1; found 0\.\.2"):
        magnet_objective(X, LABELS, None, torch.arange(2))
    with pytest.raises(ValueError, match=r"0\.\.2; found -1\.\.1"):
        magnet_objective(X, LABELS - 1, None, torch.arange(3))
    with pytest.raises(ValueError, match=r"centres must have shape \(3, 3\); found \(3, 2\)"):
        magnet_objective(X, LABELS, torch.zeros(3, 2), torch.arange(3))
    with pytest.raises(TypeError, match=r"centre_labels must be integers; found torch\.float32"):
        magnet_objective(X, LABELS, None, torch.arange(3.0))


@pytest.mark.parametrize("decay", [-0.1, 1.0])
def test_a_decay_outside_of_zero_and_one_is_named(decay):
    with pytest.raises(ValueError, match=f"decay.*found {decay}"):
        MagnetLoss(decay=decay)


def test_an_index_of_parts_that_do_not_fit_is_an_error():
    centres, labels = torch.zeros(3, 2), torch.arange(3)
    one = torch.tensor(1.0)
    with pytest.raises(ValueError, match=r"centre_labels must have shape \(3,\), one for each of the centres.*\(2,\)"):
        ClusterIndex(centres, labels[:2], LABELS, one)
    with pytest.raises(ValueError, match=r"3 centres at least once and no other; found 2 ids, 0\.\.1"):
        ClusterIndex(centres, labels, LABELS % 2, one)
    with pytest.raises(ValueError, match=r"found 3 ids, 0\.\.9"):
        ClusterIndex(centres, labels, torch.tensor([0, 1, 9]), one)
    with pytest.raises(ValueError, match=r"found 4 ids, -1\.\.2"):
        ClusterIndex(centres, labels, torch.tensor([0, 1, 2, -1]), one)
    with pytest.raises(ValueError, match=r"found 0 ids"):
        ClusterIndex(centres, labels, LABELS[:0], one)
    with pytest.raises(ValueError, match=r"centres must be finite"):
        ClusterIndex(centres + math.nan, labels, LABELS, one)


@pytest.mark.parametrize("j", [-1, 6])
def test_a_cluster_that_is_not_there_is_named(j):
    for method in (INDEX.members, lambda j: INDEX.impostors(j, 2)):
        with pytest.raises(IndexError, match=rf"cluster {j} is not in 0\.\.5"):
            method(j)


def test_a_negative_number_of_impostors_is_named():
    with pytest.raises(ValueError, match="m must be >= 0; found -1"):
        INDEX.impostors(0, -1)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"clusters_per_batch": 1}, "clusters_per_batch must be >= 2; found 1"),
        ({"examples_per_cluster": 0}, "examples_per_cluster must be >= 1; found 0"),
        ({"rank": 2, "world_size": 2}, "rank=2, world_size=2"),
        ({"rank": -1}, "rank=-1"),
        ({"batches": 0}, "batches must be >= 1; found 0"),
        ({"delay": -1}, "delay must be >= 0; found -1"),
    ],
    ids=str,
)
def test_wrong_options_of_the_sampler_are_named(options, found):
    with pytest.raises(ValueError, match=found):
        NeighbourhoodSampler(INDEX, **options)


@pytest.mark.parametrize(
    ("indices", "losses", "found"),
    [
        ([1, 2, 3], [1.0, 2.0], "3 indices and 2 losses"),
        ([1, 12], [1.0, 2.0], r"0\.\.11; found 1\.\.12"),
        ([-1, 2], [1.0, 2.0], r"0\.\.11; found -1\.\.2"),
        ([1, 2], [1.0, -2.0], r"found -2\.0"),
        ([1, 2], [1.0, math.nan], "1 NaN"),
        ([1, 2], [1.0, math.inf], "inf"),
    ],
)
def test_wrong_losses_are_named_and_change_nothing(indices, losses, found):
    sampler = NeighbourhoodSampler(INDEX, clusters_per_batch=2, examples_per_cluster=2, batches=3, delay=0)
    with pytest.raises((ValueError, IndexError), match=found):
        sampler.update(indices, losses)
    next(iter(sampler))
    assert sampler.mean_losses().isnan().all()


def test_no_losses_are_no_error():
    sampler = NeighbourhoodSampler(INDEX, clusters_per_batch=2, examples_per_cluster=2, batches=3, delay=0)
    sampler.update([], [])
    assert len(list(sampler)) == 3


def test_an_index_or_state_of_other_examples_is_an_error():
    other = ClusterIndex.fit(X[:9], LABELS[:9], 2)
    sampler = NeighbourhoodSampler(INDEX)
    with pytest.raises(ValueError, match="9 examples; the sampler was made for 12"):
        sampler.refresh(other)
    with pytest.raises(ValueError, match=r"state is of 9 examples in 6 clusters; the sampler has 12 in 6"):
        sampler.load_state_dict(NeighbourhoodSampler(other).state_dict())
    fewer = ClusterIndex.fit(X, LABELS, 1)
    with pytest.raises(ValueError, match=r"12 examples in 3 clusters; the sampler has 12 in 6"):
        sampler.load_state_dict(NeighbourhoodSampler(fewer).state_dict())


MODELS = {"kNC": NearestClusters(INDEX), "soft kNN": SoftNeighbours(X, LABELS, variance=1.0)}


@pytest.mark.parametrize("method", ["predict", "predict_proba", "nearest"])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_wrong_queries_are_named(model, method):
    ask = getattr(model, method)
    with pytest.raises(ValueError, match=r"2 dimensions; the classifier was made with 3"):
        ask(X[:, :2])
    with pytest.raises(ValueError, match=r"found \(3,\)"):
        ask(X[0])
    with pytest.raises(ValueError, match="NaN or infinity in 2 of 12 rows"):
        ask(spoilt(math.nan))
    with pytest.raises(TypeError, match=r"found torch\.int64"):
        ask(X.long())


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"neighbours": 0}, "neighbours must be positive; found 0"),
        ({"variance": 0.0}, r"variance must be positive; found 0\.0"),
        ({"variance": math.nan}, "variance must be positive; found nan"),
        ({"scaling": -1.0}, r"scaling must be positive; found -1\.0"),
    ],
    ids=str,
)
def test_wrong_options_of_the_classifiers_are_named(options, found):
    with pytest.raises(ValueError, match=found):
        NearestClusters(INDEX, **options)
    with pytest.raises(ValueError, match=found):
        SoftNeighbours(X, LABELS, **{"variance": 1.0, **options})
