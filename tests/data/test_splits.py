import numpy as np
import pytest

from magnet.data.listings import complete_split, stratified
from magnet.errors import UserError


def drawn_by_class(labels, drawn):
    return np.bincount(labels[drawn], minlength=labels.max() + 1)


def test_every_class_gives_its_share():
    labels = np.repeat([0, 1, 2], [100, 50, 10])
    drawn = stratified(labels, 0.3, np.random.default_rng(0))
    assert drawn_by_class(labels, drawn).tolist() == [30, 15, 3]


def test_the_total_is_the_rounded_fraction_even_of_many_small_classes():
    labels = np.repeat(np.arange(50), 4)
    drawn = stratified(labels, 0.1, np.random.default_rng(0))
    assert drawn.sum() == 20
    assert drawn_by_class(labels, drawn).max() == 1


@pytest.mark.parametrize("fraction", [0.3, 0.9, 0.99])
def test_no_class_loses_its_last_training_example(fraction):
    labels = np.repeat(np.arange(4), [1, 2, 3, 40])
    drawn = stratified(labels, fraction, np.random.default_rng(1))
    assert (np.bincount(labels) - drawn_by_class(labels, drawn) >= 1).all()


def test_a_class_of_two_has_one_for_test():
    labels = np.repeat(np.arange(5), 2)
    assert drawn_by_class(labels, stratified(labels, 0.3, np.random.default_rng(0))).sum() == 3


def test_the_draw_depends_on_the_seed_and_on_nothing_else():
    labels = np.repeat([0, 1], 50)
    first, again, other = (complete_split(None, labels, seed=s, validation=0) for s in (3, 3, 4))
    assert (first == again).all()
    assert (first != other).any()


def test_the_test_part_does_not_depend_on_the_validation_fraction():
    labels = np.repeat([0, 1], 50)
    without, with_validation = (complete_split(None, labels, seed=0, validation=v) for v in (0.0, 0.2))
    assert ((without == 2) == (with_validation == 2)).all()
    assert (with_validation == 1).sum() == 14


def test_a_given_test_part_is_kept_and_validation_comes_out_of_train():
    labels = np.repeat([0, 1], 50)
    given = np.tile(np.array([0, 2], np.int8), 50)
    done = complete_split(given, labels, seed=0, validation=0.1)
    assert ((done == 2) == (given == 2)).all()
    assert (done == 1).sum() == 5


def test_a_given_validation_part_is_used_as_it_is():
    labels = np.repeat([0, 1], 50)
    given = np.tile(np.array([0, 0, 0, 1, 2], np.int8), 20)
    assert (complete_split(given, labels, seed=0, validation=0.5) == given).all()


def test_a_split_without_training_examples_is_refused():
    with pytest.raises(UserError, match="no example is left for training"):
        complete_split(np.array([2, 2, 1], np.int8), np.array([0, 1, 1]), seed=0, validation=0)


def test_a_validation_fraction_of_one_is_refused():
    with pytest.raises(UserError, match="validation is 1"):
        complete_split(None, np.array([0, 1]), seed=0, validation=1.0)
