"""The objective equals the paper's equations, to the last term and in every gradient."""

import math

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

import magnet.objective
import naive
from magnet import MagnetLoss, magnet_loss, magnet_objective
from magnet._gradient import Constants
from magnet.backbones import build
from magnet.objective import membership, terms

SIZES = (4, 3, 2, 1, 3)  # clusters of unequal size
CLASSES = (0, 1, 2, 1, 0)  # clusters 0 and 4 share a class, and so do the impostors 1 and 3

OPTIONS = {
    "paper": {},
    "scaled": {"scaling": 3.0, "alpha": 2.0},
    "leave-one-out": {"own_mean": "leave-one-out"},
    "given variance": {"variance": 0.7},
    "all": {"scaling": 0.4, "alpha": 0.3, "own_mean": "leave-one-out", "variance": 1.9},
}
options = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
places = pytest.mark.parametrize("several", [False, True], ids=["one neighbourhood", "several"])


def batch(seed=0, d=3, dtype=torch.float64):
    """Rows in mixed order; cluster ids are neither contiguous nor sorted."""
    generator = torch.Generator().manual_seed(seed)
    cluster = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES))
    cluster = cluster[torch.randperm(len(cluster), generator=generator)]
    r = torch.randn(len(cluster), d, generator=generator, dtype=dtype)
    return r, torch.tensor([70, 5, 900, 12, 31])[cluster], torch.tensor(CLASSES)[cluster]


def two_places(seed=0):
    """Two neighbourhoods with a cluster in common (id 5), and a third with one class only."""
    r, clusters, labels = batch(seed)
    more = torch.randn(9, 3, generator=torch.Generator().manual_seed(seed + 1), dtype=r.dtype)
    r = torch.cat([r, more])
    clusters = torch.cat([clusters, torch.tensor([5, 5, 5, 8, 8, 9, 9, 8, 8])])
    labels = torch.cat([labels, torch.tensor([1, 1, 1, 4, 4, 4, 4, 4, 4])])
    return r, clusters, labels, torch.tensor([3] * 13 + [1] * 5 + [2] * 4)


def case(several, seed=0):
    return two_places(seed) if several else (*batch(seed), None)


def gradient(r, *rest, **options):
    r = r.clone().requires_grad_()
    magnet_loss(r, *rest, **options).loss.backward()
    return r.grad


def loops(r, clusters, labels, detach_means=False, detach_variance=False):
    """The stochastic objective in torch, one term at a time, with the option to cut gradients."""
    names = clusters.unique().tolist()
    means = {c: r[clusters == c].mean(dim=0) for c in names}
    if detach_means:
        means = {c: mean.detach() for c, mean in means.items()}
    variance = sum(((r[i] - means[int(clusters[i])]) ** 2).sum() for i in range(len(r))) / (len(r) - 1)
    if detach_variance:
        variance = variance.detach()
    total = 0
    for i in range(len(r)):
        ratio = torch.exp(-((r[i] - means[int(clusters[i])]) ** 2).sum() / (2 * variance) - 1) / sum(
            torch.exp(-((r[i] - means[c]) ** 2).sum() / (2 * variance))
            for c in names
            if labels[clusters == c][0] != labels[i]
        )
        total = total + torch.relu(-torch.log(ratio))
    return total / len(r)


@options
@places
def test_loss_equals_the_naive_equation(options, several):
    r, clusters, labels, neighbourhoods = case(several)
    found = magnet_loss(r, clusters, labels, neighbourhoods=neighbourhoods, **options)
    losses, variance = naive.stochastic_objective(r, clusters, labels, neighbourhoods=neighbourhoods, **options)
    assert (losses > 0).sum() > 4
    np.testing.assert_allclose(found.per_example, losses, rtol=1e-10)
    np.testing.assert_allclose(found.loss, losses.mean(), rtol=1e-10)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-10)


@options
@places
def test_gradient_equals_numeric_differentiation_of_the_naive_equation(options, several):
    r, clusters, labels, neighbourhoods = case(several, seed=2)

    def loss(x):
        losses, _ = naive.stochastic_objective(x, clusters, labels, neighbourhoods=neighbourhoods, **options)
        return losses.mean()

    found = gradient(r, clusters, labels, neighbourhoods=neighbourhoods, **options)
    np.testing.assert_allclose(found, naive.numeric_gradient(loss, r.numpy()), atol=1e-8)


@options
@places
def test_gradcheck_passes_in_float64(options, several):
    r, clusters, labels, neighbourhoods = case(several, seed=4)

    def function(x):
        return magnet_loss(x, clusters, labels, neighbourhoods=neighbourhoods, **options)[:2]

    assert gradcheck(function, r.requires_grad_())


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("own_mean", ["batch", "leave-one-out"])
@places
def test_the_closed_gradient_is_that_of_autograd_for_every_output_and_input(given, own_mean, several):
    r, clusters, labels, neighbourhoods = case(several, seed=3)
    inputs = [r.requires_grad_(), *([torch.tensor(0.9, dtype=r.dtype, requires_grad=True)] if given else [])]
    variance = inputs[1] if given else None
    batch = membership(clusters, labels, neighbourhoods, r.dtype)
    plain = terms(r, batch, Constants(0.4, 2.0, own_mean == "leave-one-out"), variance)[:3]
    closed = magnet_loss(
        r, clusters, labels, alpha=0.4, scaling=2.0, own_mean=own_mean, variance=variance, neighbourhoods=neighbourhoods
    )
    torch.testing.assert_close(tuple(closed), plain, rtol=1e-12, atol=0)
    upstream = torch.randn(len(r), generator=torch.Generator().manual_seed(0), dtype=r.dtype)

    def mix(loss, per_example, variance):
        return 3 * loss + per_example @ upstream - 2 * variance

    for pick in (mix, lambda *x: x[0], lambda *x: x[1] @ upstream, lambda *x: x[0] + x[2]):
        expected, found = (torch.autograd.grad(pick(*x), inputs, retain_graph=True) for x in (plain, closed))
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"own_mean": "leave-one-out", "scaling": 2.0}, {"variance": 0.7}])
def test_the_gradient_can_be_differentiated_again(options):
    r, clusters, labels = batch(seed=4)
    assert gradgradcheck(lambda x: magnet_loss(x, clusters, labels, **options)[:2], r.requires_grad_())


@options
@places
def test_columns_without_a_cluster_change_nothing(options, several, monkeypatch):
    # On a device, and in a compiled graph, every row has a column, and most of them stay empty.
    r, clusters, labels, neighbourhoods = case(several)
    results = []
    for free in (True, False):
        monkeypatch.setattr(magnet.objective, "reads_are_free", lambda value, free=free: free)
        x = r.clone().requires_grad_()
        out = magnet_loss(x, clusters, labels, neighbourhoods=neighbourhoods, **options)
        out.loss.backward()
        results.append((*(y.detach() for y in out), x.grad))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-14)


def test_torch_func_differentiates_it_too():
    r, clusters, labels = batch()
    found = torch.func.grad(lambda x: magnet_loss(x, clusters, labels).loss)(r)
    torch.testing.assert_close(found, gradient(r, clusters, labels))


def test_a_look_in_inference_mode_does_not_spoil_training():
    r, clusters, labels = batch(seed=8)
    with torch.inference_mode():
        before = magnet_loss(r[:-1], clusters[:-1], labels[:-1]).loss.item()
    x = r[:-1].clone().requires_grad_()
    loss = magnet_loss(x, clusters[:-1], labels[:-1]).loss
    loss.backward()
    assert loss.item() == before
    assert x.grad.abs().max() > 0


class Count(TorchDispatchMode):
    """How many operations were dispatched."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("own_mean", "most"), [("batch", 67), ("leave-one-out", 84)])
def test_the_number_of_operations_is_small_and_the_same_for_every_batch(own_mean, most):
    counts = set()
    for clusters, each, d in ((3, 2, 5), (12, 4, 64), (48, 4, 64)):
        ids = torch.arange(clusters).repeat_interleave(each)
        r = torch.randn(len(ids), d, generator=torch.Generator().manual_seed(0), requires_grad=True)
        magnet_loss(r, ids, ids)  # the layout of such batches is kept
        with Count() as count:
            magnet_loss(r, ids, ids, own_mean=own_mean).loss.backward()
        counts.add(count.calls)
    assert len(counts) == 1
    assert counts.pop() <= most  # autograd's own gradient took 160


@pytest.mark.parametrize("given_centres", [False, True])
@pytest.mark.parametrize("options", [{}, {"scaling": 2.0, "alpha": 0.5}, {"variance": 1.3}])
def test_full_set_objective_equals_the_naive_equation_and_passes_gradcheck(options, given_centres):
    r, _, _ = batch(seed=1)
    generator = torch.Generator().manual_seed(3)
    assignments = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2, 3, 3, 3, 0, 1])
    centre_labels = torch.tensor(CLASSES)
    centres = torch.randn(5, 3, generator=generator, dtype=r.dtype) if given_centres else None

    def function(x):
        return magnet_objective(x, assignments, centres, centre_labels, chunk=4, **options)

    found = function(r)
    losses, variance = naive.full_objective(r, assignments, centre_labels, centres, **options)
    assert (losses > 0).sum() > 4
    np.testing.assert_allclose(found.per_example, losses, rtol=1e-10)
    np.testing.assert_allclose(found.loss, losses.mean(), rtol=1e-10)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-10)
    x = r.clone().requires_grad_()
    function(x).loss.backward()
    numeric = naive.numeric_gradient(
        lambda y: naive.full_objective(y, assignments, centre_labels, centres, **options)[0].mean(), r.numpy()
    )
    np.testing.assert_allclose(x.grad, numeric, atol=1e-8)
    assert gradcheck(lambda y: function(y)[:2], x)


def test_full_set_objective_of_a_batch_is_the_stochastic_one():
    r, clusters, labels = batch()
    names, assignments = clusters.unique(return_inverse=True)
    centre_labels = torch.stack([labels[clusters == c][0] for c in names])
    torch.testing.assert_close(
        magnet_objective(r, assignments, None, centre_labels), magnet_loss(r, clusters, labels), rtol=1e-12, atol=0
    )


def rotation(d):
    return torch.linalg.qr(torch.randn(d, d, generator=torch.Generator().manual_seed(9), dtype=torch.float64)).Q


@pytest.mark.parametrize("own_mean", ["batch", "leave-one-out"])
@pytest.mark.parametrize("change", ["translation", "rotation", "scaling"])
def test_loss_is_invariant_and_its_gradient_moves_along(change, own_mean):
    r, clusters, labels = batch()
    turn = rotation(3)
    moved, moved_gradient = {
        "translation": (r + 1e3, lambda g: g),
        "rotation": (r @ turn, lambda g: g @ turn),
        "scaling": (r * 37.0, lambda g: g / 37.0),
    }[change]
    for options in ({}, {"scaling": 4.0}):
        before = magnet_loss(r, clusters, labels, own_mean=own_mean, **options)
        after = magnet_loss(moved, clusters, labels, own_mean=own_mean, **options)
        torch.testing.assert_close(after.per_example, before.per_example, rtol=1e-9, atol=1e-9)
        expected = moved_gradient(gradient(r, clusters, labels, own_mean=own_mean, **options))
        torch.testing.assert_close(
            gradient(moved, clusters, labels, own_mean=own_mean, **options), expected, rtol=1e-8, atol=1e-10
        )


def test_gradient_is_orthogonal_to_what_the_loss_is_invariant_to():
    r, clusters, labels = batch()
    g = gradient(r, clusters, labels)
    assert g.abs().max() > 1e-3
    torch.testing.assert_close(g.sum(dim=0), torch.zeros(3, dtype=g.dtype), atol=1e-12, rtol=0)  # translation
    torch.testing.assert_close((g * r).sum(), torch.zeros((), dtype=g.dtype), atol=1e-12, rtol=0)  # scaling


@pytest.mark.parametrize("full", [False, True])
def test_float32_stays_accurate_a_thousand_away_from_the_origin(full):
    r, clusters, labels = batch(d=16)
    far = (r + 1e3).float()
    r = far.double() - 1e3  # what float32 kept of it
    if full:
        names, assignments = clusters.unique(return_inverse=True)
        centre_labels = torch.stack([labels[clusters == c][0] for c in names])
        near, found = (magnet_objective(x, assignments, None, centre_labels) for x in (r, far))
    else:
        near, found = (magnet_loss(x, clusters, labels) for x in (r, far))
        torch.testing.assert_close(
            gradient(far, clusters, labels).double(), gradient(r, clusters, labels), rtol=1e-3, atol=1e-5
        )
    assert found.loss.dtype == torch.float32
    torch.testing.assert_close(found.per_example.double(), near.per_example, rtol=1e-3, atol=1e-4)


def far_pairs(distance, gap, d=64):
    """Six pairs of clusters, ``gap`` sigma from each other and ``distance`` sigma from the mean of the batch."""
    g = torch.Generator().manual_seed(0)
    clusters = torch.arange(12).repeat_interleave(4)
    places = torch.randn(6, d, generator=g, dtype=torch.float64)
    places = (distance * places / places.norm(dim=1, keepdim=True)).repeat_interleave(2, dim=0)
    places[1::2, 0] += gap
    return (places[clusters] + torch.randn(48, d, generator=g, dtype=torch.float64) / d**0.5).float(), clusters


@pytest.mark.parametrize("distance", [300, 2000])
@pytest.mark.parametrize("gap", [0.3, 2.0], ids=["overlapping", "apart"])
@pytest.mark.parametrize("own_mean", ["batch", "leave-one-out", "all"])
def test_float32_keeps_its_digits_where_clusters_overlap_far_from_the_mean_of_the_batch(distance, gap, own_mean):
    r, clusters = far_pairs(distance, gap)

    def losses(x):
        if own_mean == "all":
            return magnet_objective(x, clusters, None, torch.arange(12), scaling=10.0).per_example
        return magnet_loss(x, clusters, clusters, scaling=10.0, own_mean=own_mean).per_example

    found, exact = losses(r), losses(r.double())
    assert ((exact > 0).any() if gap < 1 else (exact == 0).all()).item()
    torch.testing.assert_close(found.double(), exact, rtol=1e-4, atol=5e-3)
    gradients = [torch.func.grad(lambda x: losses(x).mean())(x).double() for x in (r, r.double())]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-3 * float(gradients[1].abs().max()))
    if own_mean != "all":
        closed = gradient(r, clusters, clusters, scaling=10.0, own_mean=own_mean).double()
        torch.testing.assert_close(closed, gradients[1], rtol=0, atol=1e-3 * float(gradients[1].abs().max()))


def test_a_cluster_without_members_is_an_impostor_to_nobody():
    r, clusters, _ = batch()
    assignments, centre_labels = clusters.unique(return_inverse=True)[1], torch.tensor([0, 1, 2, 1, 0])
    expected, found = r.clone().requires_grad_(), r.clone().requires_grad_()
    before = magnet_objective(expected, assignments, None, centre_labels)
    more = torch.tensor([0, 3, 1, 2, 1, 1, 0])  # two clusters that nobody is assigned to
    after = magnet_objective(found, torch.tensor([0, 2, 3, 5, 6])[assignments], None, more)
    torch.testing.assert_close(tuple(after), tuple(before))
    before.loss.backward()
    after.loss.backward()
    torch.testing.assert_close(found.grad, expected.grad)
    with pytest.raises(ValueError, match=r"clusters that have members are of one class only \(label 1\)"):
        magnet_objective(r, torch.full((len(r),), 2), None, more)


def test_a_loss_of_500_is_500_with_a_finite_nonzero_gradient():
    a = math.sqrt(499.0)
    r = torch.tensor([[0.0], [2 * a], [0.0], [0.0]], requires_grad=True)  # the row at 0 sits on its impostors
    out = magnet_loss(r, torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 1, 1]), variance=0.5)
    torch.testing.assert_close(out.per_example[0], torch.tensor(500.0))
    out.per_example[0].backward()
    assert torch.isfinite(r.grad).all()
    assert r.grad[0].abs() > 1


def test_a_loss_of_more_than_500_from_the_batch_variance_is_not_capped_either():
    r, clusters, labels = batch()
    losses, _ = naive.stochastic_objective(r, clusters, labels, scaling=2000.0)
    assert losses.max() > 500
    r = r.float().requires_grad_()
    out = magnet_loss(r, clusters, labels, scaling=2000.0)
    np.testing.assert_allclose(out.per_example.detach(), losses, rtol=1e-4, atol=1e-2)
    out.loss.backward()
    assert torch.isfinite(r.grad).all()
    assert r.grad.abs().max() > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("own_mean", ["batch", "leave-one-out"])
def test_zero_variance_with_clusters_apart_gives_a_loss_of_zero(dtype, own_mean):
    r = torch.tensor([[0.0, 0], [0, 0], [3, 0], [3, 0], [0, 5], [0, 5]], dtype=dtype, requires_grad=True)
    clusters = torch.tensor([0, 0, 1, 1, 2, 2])
    out = magnet_loss(r, clusters, clusters, own_mean=own_mean)
    out.loss.backward()
    assert (out.per_example == 0).all()
    assert torch.isfinite(out.variance)
    assert out.variance > 0
    assert torch.isfinite(r.grad).all()


@pytest.mark.parametrize("offset", [0.0, 1.0, 1000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_when_all_representations_are_one_point_only_alpha_and_the_number_of_impostors_are_left(dtype, offset):
    r = torch.full((8, 5), offset, dtype=dtype, requires_grad=True)
    clusters = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    labels = torch.tensor([0, 0, 1, 1, 1, 1, 2, 2])
    out = magnet_loss(r, clusters, labels, alpha=0.5)
    impostors = torch.tensor([3, 3, 2, 2, 2, 2, 3, 3], dtype=dtype)
    torch.testing.assert_close(out.per_example, 0.5 + impostors.log())
    out.loss.backward()
    assert torch.isfinite(r.grad).all()


def test_zero_variance_of_the_full_set_is_no_nan():
    r = torch.tensor([[0.0], [0.0], [4.0], [4.0]], requires_grad=True)
    out = magnet_objective(r, torch.tensor([0, 0, 1, 1]), None, torch.tensor([0, 1]))
    out.loss.backward()
    assert out.loss == 0
    assert torch.isfinite(r.grad).all()


def test_same_class_clusters_never_enter_a_denominator():
    r, clusters, labels = batch()
    mine = clusters == 70  # class 0, as cluster 31 is
    moved = r.clone()
    moved[clusters == 31] += 0.3
    before, after = (magnet_loss(x, clusters, labels, variance=1.0).per_example for x in (r, moved))
    assert (before[mine] > 0).any()
    torch.testing.assert_close(before[mine], after[mine], rtol=1e-12, atol=0)
    assert (before - after)[labels == 1].abs().max() > 0.01  # to other classes it is an impostor


def test_two_impostor_clusters_of_one_class_both_repel_the_seed_but_not_each_other():
    r, clusters, labels = batch()
    for moving, still in ((5, 12), (12, 5)):  # the clusters of class 1
        moved = r.clone()
        moved[clusters == moving] += 0.3
        before, after = (magnet_loss(x, clusters, labels, variance=1.0).per_example for x in (r, moved))
        torch.testing.assert_close(before[clusters == still], after[clusters == still], rtol=1e-12, atol=0)
        assert (before - after)[labels == 0].abs().max() > 0.01


def test_rows_of_other_neighbourhoods_are_not_seen():
    r, clusters, labels, neighbourhoods = two_places()
    together = magnet_loss(r, clusters, labels, neighbourhoods=neighbourhoods, variance=0.8).per_example
    for place in (1, 3):
        rows = neighbourhoods == place
        alone = magnet_loss(r[rows], clusters[rows], labels[rows], variance=0.8).per_example
        torch.testing.assert_close(together[rows], alone, rtol=1e-10, atol=1e-12)


def test_a_row_without_impostors_in_its_neighbourhood_has_no_loss_and_only_touches_the_variance():
    r, clusters, labels, neighbourhoods = two_places()
    lonely = neighbourhoods == 2
    out = magnet_loss(r, clusters, labels, neighbourhoods=neighbourhoods)
    assert (out.per_example[lonely] == 0).all()
    assert torch.isfinite(gradient(r, clusters, labels, neighbourhoods=neighbourhoods)).all()
    given = gradient(r, clusters, labels, neighbourhoods=neighbourhoods, variance=0.8)
    assert (given[lonely] == 0).all()
    assert (given[~lonely] != 0).any()


@pytest.mark.parametrize("alpha", [0.0, 1.0, 5.0])
def test_leave_one_out_of_two_and_one_impostor_is_the_symmetrised_triplet_loss(alpha):
    generator = torch.Generator().manual_seed(5)
    for r in torch.randn(20, 3, 4, generator=generator, dtype=torch.float64):
        clusters = torch.tensor([0, 0, 1])
        out = magnet_loss(r, clusters, clusters, alpha=alpha, own_mean="leave-one-out", variance=0.5)
        np.testing.assert_allclose(out.per_example[:2], naive.symmetrised_triplet(*r, alpha), rtol=1e-10, atol=1e-12)


def test_with_the_batch_mean_of_two_the_own_term_is_a_quarter_of_the_triplet_one():
    r = torch.tensor([[0.0, 0.0], [2.0, 1.0], [1.0, 0.5]], dtype=torch.float64)
    clusters = torch.tensor([0, 0, 1])
    found = magnet_loss(r, clusters, clusters, own_mean="batch", variance=0.5).per_example[:2]
    pair = naive.squared_distance(r[0], r[1])
    expected = [pair / 4 - naive.squared_distance(x, r[2]) + 1.0 for x in r[:2]]
    assert min(expected) > 0
    np.testing.assert_allclose(found, expected)
    assert (found < torch.tensor(naive.symmetrised_triplet(*r, 1.0))).all()


def cut_gradient(r, clusters, labels, **cut):
    r = r.clone().requires_grad_()
    loops(r, clusters, labels, **cut).backward()
    return r.grad


@pytest.mark.parametrize("part", ["means", "variance"])
def test_gradients_flow_through_the_batch_means_and_variance(part):
    r, clusters, labels = batch(seed=6)
    found = gradient(r, clusters, labels)
    torch.testing.assert_close(found, cut_gradient(r, clusters, labels), rtol=1e-9, atol=1e-12)
    cut = cut_gradient(r, clusters, labels, **{f"detach_{part}": True})
    assert (found - cut).norm() > 0.05 * found.norm()


def test_the_variance_that_is_returned_carries_gradient_unless_given():
    r, clusters, labels = batch()
    assert magnet_loss(r.requires_grad_(), clusters, labels).variance.requires_grad
    assert not magnet_loss(r, clusters, labels, variance=1.0).variance.requires_grad


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    r, clusters, labels = batch(d=16)
    half = r.to(dtype)
    exact = magnet_loss(half.float(), clusters, labels)
    out = magnet_loss(half, clusters, labels)
    assert [x.dtype for x in out] == [torch.float32] * 3
    torch.testing.assert_close(out, exact, rtol=0, atol=0)
    torch.testing.assert_close(
        out.per_example, magnet_loss(r.float(), clusters, labels).per_example, rtol=0.05, atol=0.05
    )
    half.requires_grad_()
    magnet_loss(half, clusters, labels).loss.backward()
    assert half.grad.dtype == dtype
    assert half.grad.abs().max() > 0


@pytest.mark.parametrize("full", [False, True])
def test_autocast_to_bfloat16_changes_nothing(full):
    r, clusters, labels = batch(d=16, dtype=torch.float32)
    names, assignments = clusters.unique(return_inverse=True)
    centre_labels = torch.stack([labels[clusters == c][0] for c in names])

    def run(enabled):
        x = r.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            out = magnet_objective(x, assignments, None, centre_labels) if full else magnet_loss(x, clusters, labels)
        out.loss.backward()
        return *out, x.grad

    found = run(True)
    assert all(x.dtype == torch.float32 for x in found)
    torch.testing.assert_close(found, run(False), rtol=0, atol=0)


@places
def test_it_compiles_to_one_graph(several):
    r, clusters, labels, neighbourhoods = case(several)
    compiled = torch.compile(magnet_loss, fullgraph=True, backend="eager")
    for options in ({}, {"own_mean": "leave-one-out", "scaling": 2.0}):
        torch.testing.assert_close(
            compiled(r, clusters, labels, neighbourhoods=neighbourhoods, **options),
            magnet_loss(r, clusters, labels, neighbourhoods=neighbourhoods, **options),
        )


@pytest.mark.parametrize("name", ["mlp", "linear"])
def test_network_loss_and_backward_compile_to_one_graph(name):
    network = build(name, example_shape=(20,), dropout=0.0)
    labels = torch.arange(6).repeat_interleave(4)
    inputs = torch.randn(24, 20, generator=torch.Generator().manual_seed(0))

    def step(x):
        return magnet_loss(network(x), labels, labels).loss

    gradients = []
    for function in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        network.zero_grad()
        function(inputs).backward()
        gradients.append([p.grad.clone() for p in network.parameters()])
    torch.testing.assert_close(*gradients)


def test_order_and_names_of_clusters_do_not_matter():
    r, clusters, labels = batch()
    order = torch.randperm(len(r), generator=torch.Generator().manual_seed(1))
    out = magnet_loss(r[order], 1000 - clusters[order], labels[order] * 7 - 3)
    torch.testing.assert_close(out.per_example, magnet_loss(r, clusters, labels).per_example[order])


def test_the_module_is_the_function():
    r, clusters, labels, neighbourhoods = two_places()
    module = MagnetLoss(alpha=0.7, scaling=2.0, own_mean="leave-one-out")
    torch.testing.assert_close(
        module(r, clusters, labels, neighbourhoods),
        magnet_loss(
            r, clusters, labels, alpha=0.7, scaling=2.0, own_mean="leave-one-out", neighbourhoods=neighbourhoods
        ),
    )


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.99])
def test_the_running_variance_is_the_bias_corrected_exponential_average(decay):
    module = MagnetLoss(decay=decay)
    assert module.variance is None
    seen = []
    for seed in range(6):
        r, clusters, labels = batch(seed)
        r = (r * (1 + seed)).requires_grad_()
        seen.append(naive.stochastic_objective(r.detach(), clusters, labels)[1])
        module(r, clusters, labels)
        np.testing.assert_allclose(module.variance, naive.corrected_average(seen, decay), rtol=1e-5)
        assert not module.variance.requires_grad


def test_the_running_variance_rests_in_eval_mode():
    module = MagnetLoss()
    module(*batch(0))
    before = module.variance.clone()
    module.eval()
    module(*batch(1))
    assert torch.equal(module.variance, before)
    module.train()
    module(*batch(1))
    assert not torch.equal(module.variance, before)


def test_the_running_variance_survives_a_state_dict():
    module, restored = MagnetLoss(), MagnetLoss()
    for seed in range(3):
        module(*batch(seed))
    restored.load_state_dict(module.state_dict())
    assert torch.equal(restored.variance, module.variance)
    for each in (module, restored):
        each(*batch(7))
    assert torch.equal(restored.variance, module.variance)
