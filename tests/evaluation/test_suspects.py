"""Suspects: planted wrong labels are found."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from magnet.evaluation import suspects
from magnet.evaluation.suspects import Doubts, doubt_labels
from magnet.experiments.suspects import plant, suspected
from magnet.start import StartSettings

X, Y = load_digits(return_X_y=True)
X, Y = torch.tensor(X[:700] / 16), Y[:700]


@pytest.fixture(scope="module")
def searched():
    given, planted = plant(Y, 0.1, seed=0)
    return given, planted, doubt_labels(X, torch.from_numpy(given))


def test_nine_of_ten_planted_labels_are_among_as_many_suspects(searched):
    _, planted, doubts = searched
    assert suspected(-doubts.loss.numpy(), planted).mean() > 0.9


def test_the_suggestion_is_the_label_that_was_replaced(searched):
    _, planted, doubts = searched
    assert (doubts.suggestion.numpy()[planted] == Y[planted]).mean() > 0.9
    assert ((doubts.probability >= 0) & (doubts.probability <= 1 + 1e-9)).all()


def test_an_example_has_no_vote_on_its_own_label(searched):
    """With its own vote a wrong label would be half right in a class of two clusters; here it gets next to none."""
    given, planted, doubts = searched
    assert np.exp(-doubts.loss.numpy()[planted]).mean() < 0.15
    right = np.setdiff1d(np.arange(len(given)), planted)
    assert np.exp(-doubts.loss.numpy()[right]).mean() > 0.8


def test_the_only_example_of_a_class_is_not_doubted():
    labels = torch.from_numpy(Y[:200].copy())
    labels[3] = 10
    doubts = doubt_labels(X[:200], labels)
    assert (float(doubts.loss[3]), int(doubts.suggestion[3])) == (0.0, 10)
    assert torch.isfinite(doubts.loss).all()


def test_a_label_without_any_vote_has_a_finite_loss():
    doubts = Doubts.of(torch.tensor([[0.0, 1.0]]), torch.tensor([0]))
    assert float(doubts.loss[0]) == pytest.approx(27.6, abs=0.1)


def test_of_very_many_examples_all_are_judged_by_the_votes_of_some(searched, monkeypatch):
    given, planted, all_vote = searched
    seen = []

    def counted(settings, part, dim, seed):
        seen.append(len(part.labels))
        return fit(settings, part, dim, seed)

    fit = StartSettings.fit
    monkeypatch.setattr(StartSettings, "fit", counted)
    monkeypatch.setattr(suspects, "MOST_VOTERS", 300)
    monkeypatch.setattr(suspects, "BLOCK", 10 * 16)  # votes of 16 examples at once
    doubts = doubt_labels(X, torch.from_numpy(given))
    assert max(seen) <= 300 + 10
    assert suspected(-doubts.loss.numpy(), planted).mean() > 0.85
    assert (doubts.suggestion == all_vote.suggestion).float().mean() > 0.9


def test_a_rare_class_keeps_its_votes_among_very_many_examples():
    labels = torch.tensor([0] * 990 + [1] * 4)
    kept = labels[suspects.some_of_each(labels, most=100, seed=1)]
    assert kept.bincount().tolist() == [100, 4]
