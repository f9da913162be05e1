import numpy as np
import torch

from magnet.methods import Batch, Options
from magnet.methods.contrastive import Contrastive, PairBatches, contrastive_loss
from methods.numerical import assert_same
from methods.toy import setting_of

MARGIN = 3.0
LABELS = torch.tensor([0, 0, 1, 2, 2, 2, 0, 1, 1, 0])


def naive_contrastive(r: np.ndarray, margin: float) -> np.ndarray:
    losses = []
    for p in range(0, len(r), 2):
        d = np.sqrt(sum((r[p][i] - r[p + 1][i]) ** 2 for i in range(r.shape[1])))
        losses.append(0.5 * d**2 if LABELS[p] == LABELS[p + 1] else 0.5 * max(0.0, margin - d) ** 2)
    return np.array(losses)


def test_the_loss_and_its_gradient_are_those_of_the_equation():
    at = np.random.default_rng(0).normal(size=(10, 3))
    apart = contrastive_loss(torch.tensor(at), LABELS, MARGIN)[LABELS[0::2] != LABELS[1::2]]
    assert 0 < int((apart > 0).sum()) < len(apart)  # dissimilar pairs on both sides of the margin
    assert_same(lambda r: contrastive_loss(r, LABELS, MARGIN), lambda r: naive_contrastive(r, MARGIN), at)


def test_equal_representations_have_a_finite_gradient():
    r = torch.ones(4, 3, requires_grad=True)
    losses = contrastive_loss(r, torch.tensor([0, 0, 0, 1]), 1.0)
    losses.sum().backward()
    assert losses.tolist() == [0.0, 0.5]
    assert r.grad.isfinite().all()


def test_a_pair_shares_its_loss():
    method, r = Contrastive(setting_of(LABELS), Options(alpha=2.0)), torch.randn(10, 3)
    output = method.loss(lambda x: x, Batch(r, LABELS, torch.zeros(10)))
    assert output.per_example.tolist() == contrastive_loss(r, LABELS, 2.0).repeat_interleave(2).tolist()


def test_half_of_the_pairs_are_similar_and_no_example_is_its_own_mate():
    y = torch.tensor([0] * 10 + [1] * 20 + [2] * 30)[torch.randperm(60)]
    sampler = PairBatches(setting_of(y), Options(clusters_per_batch=5, examples_per_cluster=2))  # five pairs: odd
    pairs = torch.tensor([sampler.draw(number) for number in range(40)]).view(-1, 2)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    similar = y[pairs[:, 0]] == y[pairs[:, 1]]
    assert similar.tolist() == [True, False] * 100


def test_mates_are_uniform():
    y = torch.tensor([0, 1, 0, 1, 1, 0, 2])
    sampler = PairBatches(setting_of(y), Options(clusters_per_batch=14, examples_per_cluster=1))
    seen: dict[int, list[int]] = {}
    for number in range(2000):
        for first, mate in torch.tensor(sampler.draw(number)).view(-1, 2).tolist():
            seen.setdefault(first, []).append(mate)
    counts = torch.bincount(torch.tensor(seen[0]), minlength=7) / len(seen[0])
    # A half for the two others of its class, a half for the four of other classes.
    torch.testing.assert_close(counts, torch.tensor([0, 1 / 8, 1 / 4, 1 / 8, 1 / 8, 1 / 4, 1 / 8]), atol=0.04, rtol=0)
    assert set(seen[6]) == {0, 1, 2, 3, 4, 5}  # alone in its class: never its own mate
