import numpy as np
import torch

from magnet.methods import Batch, Options
from magnet.methods.triplet import Triplet, target_neighbours, triplet_loss
from methods.numerical import assert_same
from methods.toy import setting_of


def naive_triplet(r: np.ndarray, alpha: float) -> np.ndarray:
    losses = []
    for t in range(0, len(r), 3):
        near = sum((r[t][i] - r[t + 1][i]) ** 2 for i in range(r.shape[1]))
        far = sum((r[t][i] - r[t + 2][i]) ** 2 for i in range(r.shape[1]))
        losses.append(max(0.0, near - far + alpha))
    return np.array(losses)


def prepared(count: int = 60, classes: int = 3, **options: float) -> tuple[Triplet, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(count, 4, generator=generator), torch.arange(count) % classes
    method = Triplet(setting_of(y, 4), Options(clusters_per_batch=4, examples_per_cluster=3, **options))
    method.prepare(x, lambda ids, count: x[:count])
    return method, x, y


def test_the_loss_and_its_gradient_are_those_of_the_equation():
    at = np.random.default_rng(0).normal(size=(12, 3))
    losses = triplet_loss(torch.tensor(at), 0.5)
    assert 0 < int((losses > 0).sum()) < 4  # both sides of the hinge
    assert_same(lambda r: triplet_loss(r, 0.5), lambda r: naive_triplet(r, 0.5), at)


def test_a_triplet_shares_its_loss():
    method, x, y = prepared(alpha=0.5)
    output = method.loss(lambda inputs: inputs, Batch(x[:6], y[:6], torch.zeros(6)))
    assert output.per_example.tolist() == triplet_loss(x[:6], 0.5).repeat_interleave(3).tolist()


def test_targets_are_the_nearest_of_the_class_in_the_input_space():
    x = torch.tensor([[0.0], [1.0], [3.0], [0.1], [7.0], [0.2]])
    y = torch.tensor([0, 0, 0, 1, 1, 2])
    assert target_neighbours(x, y, 2).tolist() == [[1, 2], [0, 2], [1, 0], [4, -1], [3, -1], [-1, -1]]


def test_targets_do_not_depend_on_where_the_origin_is():
    x, y = torch.randn(100, 8), torch.zeros(100, dtype=torch.long)
    x = (x * 64).round() / 64  # so that the shift below loses no digit of the inputs
    near, far = target_neighbours(x, y, 3), target_neighbours(x + 1024, y, 3)
    lengths = [(x[:, None] - x[targets]).square().sum(dim=2) for targets in (near, far)]
    torch.testing.assert_close(*lengths)  # ties may be broken either way


def test_positives_are_targets_and_negatives_are_of_other_classes():
    method, _, y = prepared()
    for rows in (row for _ in range(5) for row in method.sampler):
        method.sampler.update(torch.tensor(rows), torch.zeros(len(rows)))
        assert len(rows) == 12
        for seed, positive, negative in torch.tensor(rows).view(-1, 3).tolist():
            assert positive in method.sampler.targets[seed]
            assert y[negative] != y[seed]


def test_impostors_come_from_the_nearest_fraction_of_the_current_space():
    method, _, y = prepared(impostor_fraction=0.1)
    r = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    method.refresh(r, None)
    used = set()
    for _ in range(20):
        for rows in method.sampler:
            method.sampler.update(torch.tensor(rows), torch.zeros(len(rows)))
            for seed, _, negative in torch.tensor(rows).view(-1, 3).tolist():
                distances = [float(((r[seed] - r[n]) ** 2).sum()) for n in range(60) if y[n] != y[seed]]
                rank = sorted(distances).index(float(((r[seed] - r[negative]) ** 2).sum()))
                used.add(rank)
    assert used == {0, 1, 2, 3}  # a tenth of forty


def test_an_example_alone_in_its_class_is_its_own_positive():
    y = torch.tensor([0, 0, 0, 1])
    method = Triplet(setting_of(y), Options(clusters_per_batch=4, examples_per_cluster=3))
    method.prepare(torch.randn(4, 2), lambda ids, count: ids)
    triplets = torch.tensor(next(iter(method.sampler))).view(-1, 3)
    assert (triplets[triplets[:, 0] == 3][:, 1] == 3).all()


def test_a_large_seed_is_no_trouble():
    y = torch.arange(12) % 2
    method = Triplet(setting_of(y, seed=2**62), Options(clusters_per_batch=2, examples_per_cluster=3))
    assert len(next(iter(method.sampler))) == 6
