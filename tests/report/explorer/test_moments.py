import shutil

import numpy as np
import pytest
import torch

from magnet.errors import UserError
from magnet.index import ClusterIndex
from magnet.report.explorer.moments import kept_moments, lay_out_moments, moment
from magnet.report.layout import lay_out
from magnet.runs.run import Run

CENTRES = torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 10.0]])
INDEX = ClusterIndex(CENTRES, torch.tensor([0, 0, 1]), torch.tensor([0, 1, 2]), torch.tensor(4.0))


def test_examples_are_put_into_clusters_of_their_own_class():
    points = torch.tensor([[0.0, 1.0], [3.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    found = moment(
        7, torch.arange(4), points, torch.tensor([0, 1, 0, 2]), torch.tensor([1, -1, -1, -1]), INDEX, sigma=2.0
    )
    # The first was trained in cluster 1 and stays there; the last is of a class without clusters.
    assert found.clusters.tolist() == [1, 2, 0, -1]
    assert torch.allclose(found.own[:3], torch.tensor([17.0, 109.0, 1.0]).sqrt() / 2)
    assert found.impostor.tolist() == [2, 1, 2, 1]
    assert float(found.impostor_distance[1]) == 0.5


@pytest.fixture(scope="module")
def kept(digits_magnet):
    run = Run(digits_magnet)
    place = torch.full((len(run.data),), -1)
    place[run.train] = torch.arange(len(run.train))
    rows = torch.arange(0, 1797, 3)
    return run, rows, kept_moments(run.folder, run.step, run.data.labels[rows], place[rows])


def test_kept_refreshes_come_in_order_and_hold_the_training_examples_that_are_shown(kept):
    run, rows, moments = kept
    assert [m.step for m in moments] == [0, 15, 30, 45]
    for m in moments:
        assert set(rows[m.shown].tolist()) == set(rows.tolist()) & set(run.train.tolist())
        assert (m.index.centre_labels[m.clusters] == run.data.labels[rows[m.shown]]).all()


def test_refreshes_after_the_checkpoint_are_left_out(kept):
    run, rows, _ = kept
    place = torch.full((len(rows),), -1)
    assert [m.step for m in kept_moments(run.folder, 30, run.data.labels[rows], place)] == [0, 15]


def test_a_damaged_refresh_is_said_in_one_line(digits_magnet, tmp_path):
    folder = shutil.copytree(digits_magnet / "refreshes", tmp_path / "run" / "refreshes").parent
    (folder / "refreshes" / "step-00000000.safetensors").write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"step-00000000.* cannot be read as a refresh"):
        kept_moments(folder, 100, torch.zeros(3, dtype=torch.long), torch.arange(3))


def test_consecutive_maps_are_aligned_and_the_same_seed_gives_the_same(kept):
    _, _, moments = kept
    maps = lay_out_moments(moments[-2:], seed=1)
    (before, centres), (after, _) = maps
    assert centres.shape == (len(moments[-2].index), 2)
    size = after.std()
    moved = np.linalg.norm(before - after, axis=1).mean()
    strangers = np.linalg.norm(before[np.random.default_rng(0).permutation(len(before))] - after, axis=1).mean()
    assert moved < 0.5 * strangers
    assert 0.5 < before.std() / size < 2
    again = lay_out_moments(moments[-2:], seed=1)
    assert all(
        np.array_equal(a, b) for one, two in zip(maps, again, strict=True) for a, b in zip(one, two, strict=True)
    )


def test_the_maps_of_the_explorer_are_laid_out_as_those_of_figures():
    representations = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(60) % 3
    index = ClusterIndex.fit(representations, labels, 2)
    found = moment(1, torch.arange(60), representations, labels, torch.arange(60), index, sigma=1.0)
    ((placed, centres),) = lay_out_moments([found], seed=3)
    expected = lay_out(representations.numpy(), index.centres.numpy(), seed=3)
    np.testing.assert_array_equal(placed, expected[0])
    np.testing.assert_array_equal(centres, expected[1])
