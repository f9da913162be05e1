import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from magnet.errors import UserError
from magnet.evaluation.suspects import Doubts
from magnet.index import ClusterIndex
from magnet.report.explorer.examples import Predictions, choose, contrast, predict
from magnet.report.explorer.snapshots import Moment, kept_moments, lay_out_moments, near_each_other, place_in_clusters
from magnet.report.layout import lay_out
from magnet.runs import suspects
from magnet.runs.run import Run
from magnet.runs.suspects import find_suspects

LABELS = np.repeat(np.arange(3), [600, 300, 100])
SPLIT = np.tile([0, 0, 0, 0, 2], 200).astype(np.int8)
ROWS = np.random.default_rng(0).permutation(1797)[:300]
CENTRES = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 10.0]])
INDEX = ClusterIndex(CENTRES, torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]), torch.tensor(4.0))


def test_all_are_shown_when_there_is_room_and_in_no_order():
    rows = choose(LABELS, SPLIT, 5000, seed=0)
    assert sorted(rows) == list(range(1000))
    assert not np.array_equal(rows, np.sort(rows))


def test_a_sample_keeps_classes_and_parts_in_proportion():
    rows = choose(LABELS, SPLIT, 100, seed=0)
    assert len(set(rows)) == 100
    assert abs(np.bincount(LABELS[rows]) - [60, 30, 10]).max() <= 2
    assert abs(np.bincount(SPLIT[rows])[[0, 2]] - [80, 20]).max() <= 3


def test_a_rare_class_is_not_lost():
    labels = np.array([0] * 997 + [1, 2, 3])
    assert set(labels[choose(labels, np.zeros(1000, np.int8), 10, seed=1)]) == {0, 1, 2, 3}


def test_the_seed_decides():
    first, again, other = (choose(LABELS, SPLIT, 50, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def labels_of(run):
    return run.data.labels[torch.from_numpy(ROWS)]


def test_under_knc_the_loss_is_minus_log_of_the_votes_for_the_label(digits_magnet):
    run = Run(digits_magnet)
    found = predict(run, ROWS)
    votes = run.rule("knc").predict_proba(run.embed(torch.from_numpy(ROWS)))
    expected = -votes.gather(1, labels_of(run)[:, None])[:, 0].clamp_min(1e-12).log()
    assert torch.allclose(found.loss, expected.to(found.loss.dtype), atol=1e-3)
    assert (found.prediction == votes.argmax(dim=1)).float().mean() > 0.99


def test_under_its_own_head_the_loss_is_the_cross_entropy(digits_softmax):
    run = Run(digits_softmax)
    logits = run.learner.method.logits(run.embed(torch.from_numpy(ROWS)))
    expected = torch.nn.functional.cross_entropy(logits, labels_of(run), reduction="none")
    assert torch.allclose(predict(run, ROWS).loss, expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["digits_magnet", "digits_softmax", "digits_triplet"])
def test_doubts_of_a_page_are_those_of_magnet_suspects_in_every_part(kind, request):
    run = Run(request.getfixturevalue(kind))
    found = predict(run, ROWS)
    listed = {row["row"]: row for row in find_suspects(run, "all")}
    assert {listed[row]["split"] for row in ROWS.tolist()} == {"train", "test"}
    assert [listed[row]["loss"] for row in ROWS.tolist()] == pytest.approx(found.doubts.loss.tolist(), abs=1e-4)
    assert [listed[row]["suggestion"] for row in ROWS.tolist()] == [run.classes[c] for c in found.doubts.suggestion]
    assert not torch.allclose(found.doubts.loss.float(), found.loss)  # training examples: not by their own votes
    new = found.place < 0
    assert torch.allclose(found.doubts.loss[new].float(), found.loss[new], atol=1e-5)


def test_of_a_large_training_part_only_those_shown_are_judged_and_alike(digits_magnet, tmp_path, monkeypatch):
    run = Run(shutil.copytree(digits_magnet, tmp_path / "run"))
    shown = run.train[torch.randperm(len(run.train), generator=torch.Generator().manual_seed(0))[:40]].numpy()
    everybody = {row["row"]: row["loss"] for row in find_suspects(run)}
    (kept,) = (run.folder / "cache").glob("*suspects*")
    kept.unlink()
    monkeypatch.setattr(suspects, "MOST_VOTERS", 1000)
    found = predict(run, shown).doubts
    assert not kept.exists()
    assert [everybody[row] for row in shown.tolist()] == pytest.approx(found.loss.tolist(), abs=1e-6)


def test_under_soft_knn_an_example_has_no_vote_on_itself(digits_triplet):
    run = Run(digits_triplet)
    found, rule = predict(run, ROWS), run.rule("knn")
    train = run.train.tolist()
    for i in range(25):
        distances = (run.references - found.representations[i]).square().sum(dim=1).double()
        if ROWS[i] in train:
            distances[train.index(ROWS[i])] = torch.inf
        near = distances.argsort()[: rule.neighbours]
        votes = torch.softmax(-distances[near] * rule.scaling / (2 * rule.variance), dim=0)
        own = votes[run.labels[near] == labels_of(run)[i]].sum()
        assert abs(float(found.probabilities[i, labels_of(run)[i]].log()) - float(own.log())) < 1e-2


def test_an_example_of_a_class_that_was_never_trained_on_has_a_finite_loss(odd_vectors):
    run = Run(odd_vectors)
    strange = np.flatnonzero(run.data.labels.numpy() == run.classes.index("only in test"))
    found = predict(run, strange)
    assert torch.allclose(found.loss, torch.tensor(27.6310), atol=1e-3)
    assert (found.place == -1).all()


def test_examples_are_put_into_clusters_of_their_own_class():
    points = torch.tensor([[0.0, 1.0], [3.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    clusters, own, impostor, far = place_in_clusters(
        points, torch.tensor([0, 1, 0, 2]), torch.tensor([1, -1, -1, -1]), INDEX, sigma=2.0
    )
    # The first was trained in cluster 1 and stays there; the last is of a class without clusters.
    assert clusters.tolist() == [1, 2, 0, -1]
    assert torch.allclose(own[:3], torch.tensor([17.0, 109.0, 1.0]).sqrt() / 2)
    assert impostor.tolist() == [2, 1, 2, 1]
    assert float(far[1]) == 0.5


def test_a_doubtful_example_stands_between_the_nearest_of_its_own_and_of_the_likeliest_other_class():
    points = torch.tensor([[0.0], [0.1], [0.3], [5.0], [5.2], [4.9]])
    labels = torch.tensor([0, 0, 0, 1, 1, 0])  # the last one is in the wrong place
    votes = torch.tensor([[0.9, 0.1, 0.0]] * 3 + [[0.1, 0.8, 0.1]] * 2 + [[0.2, 0.7, 0.1]])
    doubts = Doubts.of(votes, labels)
    seen = Predictions(points, torch.arange(6), votes, torch.zeros(6), votes.argmax(1), doubts)
    found = contrast(seen, labels, most=2, beside=3)
    assert found.ids[0] == 5
    assert found.other[0] == 1
    assert found.of_own[0].tolist() == [2, 1, 0]
    assert found.of_other[0].tolist() == [3, 4, -1]
    assert found.of_own[1].tolist() == [4, -1, -1]  # of the other class's two, without itself
    assert found.other[1] in (0, 2)


def test_an_example_is_not_its_own_neighbour_even_among_duplicates():
    _, ids = near_each_other(torch.tensor([[0.0], [0.0], [0.0], [0.0], [9.0]]), 2)
    assert ids.shape == (5, 2)
    assert not (ids == torch.arange(5)[:, None]).any()


@pytest.fixture(scope="module")
def kept(digits_magnet):
    run = Run(digits_magnet)
    place = torch.full((len(run.data),), -1)
    place[run.train] = torch.arange(len(run.train))
    rows = torch.arange(0, 1797, 3)
    return run, rows, kept_moments(run, run.data.labels[rows], place[rows])


def test_kept_refreshes_come_in_order_and_hold_the_training_examples_that_are_shown(kept):
    run, rows, moments = kept
    assert [m.step for m in moments] == [0, 15, 30, 45]
    for m in moments:
        assert set(rows[m.shown].tolist()) == set(rows.tolist()) & set(run.train.tolist())
        assert (m.index.centre_labels[m.clusters] == run.data.labels[rows[m.shown]]).all()


def test_the_refresh_at_the_evaluated_step_is_left_out_and_later_ones_are_there(kept, monkeypatch):
    run, rows, _ = kept
    place = torch.full((len(rows),), -1)
    place[:5] = torch.arange(5)
    monkeypatch.setattr(run, "step", 30)
    assert [m.step for m in kept_moments(run, run.data.labels[rows], place)] == [0, 15, 45]


def test_a_refresh_is_judged_by_the_votes_of_its_own_clusters(kept):
    run, rows, moments = kept
    later = moments[-1]
    rule = run.rules_of(later.index, run.references, run.labels)[0]
    votes = rule.predict_proba(later.representations)
    assert torch.allclose(later.probabilities[:, rule.classes], votes.float(), atol=1e-6)
    labels = run.data.labels[rows[later.shown]]
    assert (votes.argmax(dim=1) == labels).float().mean() > 0.9
    assert torch.allclose(later.loss, -votes.gather(1, labels[:, None])[:, 0].float().clamp_min(1e-12).log(), atol=1e-4)


def test_a_damaged_refresh_is_said_in_one_line(digits_magnet, tmp_path):
    run = Run(shutil.copytree(digits_magnet, tmp_path / "run"))
    (run.folder / "refreshes" / "step-00000000.safetensors").write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"step-00000000.* cannot be read as a refresh"):
        kept_moments(run, torch.zeros(3, dtype=torch.long), torch.arange(3))


def test_consecutive_maps_are_aligned_and_the_same_seed_gives_the_same(kept):
    _, _, moments = kept
    pair = [moments[-2], replace(moments[-1], evaluated=True)]
    maps = lay_out_moments(pair, seed=1)
    (before, centres), (after, _) = maps
    assert centres.shape == (len(moments[-2].index), 2)
    size = after.std()
    moved = np.linalg.norm(before - after, axis=1).mean()
    strangers = np.linalg.norm(before[np.random.default_rng(0).permutation(len(before))] - after, axis=1).mean()
    assert moved < 0.5 * strangers
    assert 0.5 < before.std() / size < 2
    again = lay_out_moments(pair, seed=1)
    assert all(
        np.array_equal(a, b) for one, two in zip(maps, again, strict=True) for a, b in zip(one, two, strict=True)
    )


def test_the_maps_of_the_explorer_are_laid_out_as_those_of_figures():
    representations = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(60) % 3
    index = ClusterIndex.fit(representations, labels, 2)
    placed = place_in_clusters(representations, labels, torch.arange(60), index, 1.0)
    found = Moment(
        1, True, torch.arange(60), representations, index, 1.0, torch.eye(3)[labels], torch.zeros(60), *placed
    )
    ((placed, centres),) = lay_out_moments([found], seed=3)
    expected = lay_out(representations.numpy(), index.centres.numpy(), seed=3)
    np.testing.assert_array_equal(placed, expected[0])
    np.testing.assert_array_equal(centres, expected[1])
