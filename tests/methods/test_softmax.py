import numpy as np
import torch
from torch import nn

from magnet.methods import Batch, Options
from magnet.methods.softmax import Softmax
from methods.numerical import assert_same
from methods.toy import setting_of, train, xor

LABELS = torch.tensor([0, 2, 1, 1, 0])


def test_the_loss_and_its_gradient_are_those_of_the_equation():
    method = Softmax(setting_of(LABELS, dim=3), Options()).double()
    weight, bias = (p.detach().numpy() for p in method.head.parameters())

    def naive(r: np.ndarray) -> np.ndarray:
        scores = [[np.exp(weight[c] @ row + bias[c]) for c in range(3)] for row in r]
        return np.array([-np.log(s[c] / sum(s)) for s, c in zip(scores, LABELS, strict=True)])

    def cross_entropy(r: torch.Tensor) -> torch.Tensor:
        return method.loss(lambda x: x, Batch(r, LABELS, torch.zeros(5))).loss[None]

    at = np.random.default_rng(0).normal(size=(5, 3))
    assert_same(cross_entropy, lambda r: naive(r).mean(keepdims=True), at)
    output = method.loss(lambda x: x, Batch(torch.tensor(at), LABELS, torch.zeros(5)))
    np.testing.assert_allclose(output.per_example, naive(at))


def test_the_head_is_trained_and_classifies():
    method = Softmax(setting_of(LABELS, dim=3), Options())
    assert {name for name, _ in method.named_parameters()} == {"head.weight", "head.bias"}
    r = torch.randn(4, 3)
    assert torch.equal(method.logits(r), method.head(r))


def test_a_linear_map_cannot_solve_xor_by_its_head():
    x, y = xor()
    model = train("softmax", nn.Linear(6, 2), x, y, Options(clusters_per_batch=3, examples_per_cluster=8))
    assert model.error(*xor(seed=1), "head") > 0.3
