"""Logistic regression as experiments tune it: fitted to its end, and chosen by examples that had no part in it."""

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

from magnet.experiments import logistic
from magnet.experiments.logistic import CommonScaler, tuned_logistic
from magnet.votes import Examples


def two_classes():
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(300) % 2
    return Examples(torch.randn(300, 6, generator=rng, dtype=torch.float64) + labels[:, None], labels)


def test_it_is_fitted_to_its_end_where_classes_are_many(monkeypatch):
    monkeypatch.setattr(logistic, "C_VALUES", (10.0,))
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(3000) % 300
    x = torch.randn(300, 60, generator=rng)[labels]
    x[:, 30:] = 0.0  # half of the features say nothing, and vary most
    x += torch.tensor([0.3] * 30 + [2.0] * 30) * torch.randn(x.shape, generator=rng)
    model = tuned_logistic(Examples(x[:2100], labels[:2100])).fit(x[:2100].numpy(), labels[:2100].numpy())
    assert model.score(x[2100:].numpy(), labels[2100:].numpy()) > 0.9, "after one step it is 0.57"


def test_features_are_standardised_only_where_that_helps():
    rng = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 2
    noise = torch.randn(200, 60, generator=rng)
    loud = torch.cat([noise[:, :1] + 4 * labels[:, None], 0.01 * noise[:, 1:]], dim=1)
    quiet = torch.cat([0.01 * (noise[:, :1] + 4 * labels[:, None]), noise[:, 1:]], dim=1)
    kinds = [type(tuned_logistic(Examples(x, labels))["scale"]) for x in (loud, quiet)]
    assert kinds == [CommonScaler, StandardScaler]


def test_a_space_is_fitted_without_the_examples_held_out_of_the_fold():
    examples, seen = two_classes(), []

    def space(part):
        seen.append(len(part.labels))
        return lambda x: x

    tuned_logistic(examples, space=space)
    assert seen == [200, 200, 200]


def test_settings_are_chosen_on_a_subset_of_many_examples(monkeypatch):
    monkeypatch.setattr(logistic, "MOST", 60)
    seen = []
    tuned_logistic(two_classes(), space=lambda part: seen.append(len(part.labels)) or (lambda x: x))
    assert seen == [40, 40, 40]


def test_a_class_with_one_example_and_a_constant_feature_are_taken():
    x = torch.randn(31, 4, generator=torch.Generator().manual_seed(0)).double()
    x[:, 3] = 7.0
    labels = torch.tensor([0, 1, 2] * 10 + [3])
    model = tuned_logistic(Examples(x, labels), loss="log-loss").fit(x.numpy(), labels.numpy())
    assert np.isfinite(model.predict_proba(x.numpy())).all()
