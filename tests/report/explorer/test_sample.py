import numpy as np

from magnet.report.explorer.sample import choose

LABELS = np.repeat(np.arange(3), [600, 300, 100])
SPLIT = np.tile([0, 0, 0, 0, 2], 200).astype(np.int8)


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
