import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from magnet.evaluation.probe import linear_probe


def test_it_agrees_with_logistic_regression() -> None:
    source = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (400,), generator=source) * 3
    r = torch.randn(400, 10, generator=source) + 0.7 * torch.nn.functional.one_hot(labels, 13)[:, :10] * 3
    x = ((r - r[:300].mean(0)) / (r[:300] - r[:300].mean(0)).square().mean().sqrt()).numpy()
    # scikit-learn minimises the sum of the losses + |W|^2 / (2 C).
    expected = LogisticRegression(C=1 / (300 * 1e-3), max_iter=2000).fit(x[:300], labels[:300]).predict(x[300:])
    found = linear_probe(r[:300], labels[:300], r[300:], iterations=500)
    assert np.mean(found.numpy() == expected) > 0.98


def test_it_recovers_labels_that_are_linear_in_the_representation() -> None:
    r = torch.randn(500, 6, generator=torch.Generator().manual_seed(1))
    labels = r[:, :3].argmax(dim=1)
    assert (linear_probe(r[:400], labels[:400], r[400:]) == labels[400:]).float().mean() > 0.95
