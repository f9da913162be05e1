import numpy as np
import torch

from magnet.report.explorer.answers import ask
from magnet.runs.run import Run

ROWS = np.random.default_rng(0).permutation(1797)[:300]


def labels_of(run):
    return run.data.labels[torch.from_numpy(ROWS)]


def test_under_knc_the_loss_is_minus_log_of_the_votes_for_the_label(digits_magnet):
    run = Run(digits_magnet)
    found = ask(run, ROWS)
    votes = run.rule("knc").predict_proba(run.embed(torch.from_numpy(ROWS)))
    expected = -votes.gather(1, labels_of(run)[:, None])[:, 0].clamp_min(1e-12).log()
    assert torch.allclose(found.loss, expected, atol=1e-3)
    assert (found.prediction == votes.argmax(dim=1)).float().mean() > 0.99


def test_under_its_own_head_the_loss_is_the_cross_entropy(digits_softmax):
    run = Run(digits_softmax)
    logits = run.learner.method.logits(run.embed(torch.from_numpy(ROWS)))
    expected = torch.nn.functional.cross_entropy(logits, labels_of(run), reduction="none")
    assert torch.allclose(ask(run, ROWS).loss, expected, atol=1e-4)


def test_under_soft_knn_an_example_has_no_vote_on_itself(digits_triplet):
    run = Run(digits_triplet)
    found, rule = ask(run, ROWS), run.rule("knn")
    train = run.train.tolist()
    for i in range(25):
        distances = (run.references - found.representations[i]).square().sum(dim=1).double()
        if ROWS[i] in train:
            distances[train.index(ROWS[i])] = torch.inf
        near = distances.argsort()[: rule.neighbours]
        votes = torch.softmax(-distances[near] * rule.scaling / (2 * rule.variance), dim=0)
        own = votes[run.labels[near] == labels_of(run)[i]].sum()
        assert abs(float(found.loss[i]) + float(own.log())) < 1e-2


def test_an_example_of_a_class_that_was_never_trained_on_has_a_finite_loss(odd_vectors):
    run = Run(odd_vectors)
    strange = np.flatnonzero(run.data.labels.numpy() == run.classes.index("only in test"))
    found = ask(run, strange)
    assert torch.allclose(found.loss, torch.tensor(27.6310), atol=1e-3)
    assert (found.place == -1).all()
