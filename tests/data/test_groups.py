import numpy as np
import torch

from magnet.data import Dataset, merge_classes
from magnet.data.groups import CATS, known_groups, merge_groups


def data(classes):
    return Dataset.from_arrays(np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % classes)


def test_classes_are_merged_in_pairs_and_the_fine_labels_kept():
    fine = data(6)
    merged = merge_classes(fine, 0)
    assert len(merged.classes) == 3
    assert torch.equal(merged.fine_labels, fine.labels)
    assert merged.fine_classes == fine.classes
    for label, name in enumerate(merged.classes):
        members = merged.fine_labels[merged.labels == label].unique()
        assert len(members) == 2
        assert name == " + ".join(fine.classes[i] for i in members)
    assert (merged.split == fine.split).all()
    assert fine.fine_labels is None


def test_an_odd_class_stays_alone():
    merged = merge_classes(data(5), 0)
    sizes = [len(merged.fine_labels[merged.labels == label].unique()) for label in range(3)]
    assert sorted(sizes) == [1, 2, 2]


def test_pairs_depend_on_the_seed():
    assert merge_classes(data(10), 1).classes == merge_classes(data(10), 1).classes
    assert merge_classes(data(10), 1).classes != merge_classes(data(10), 2).classes


def named(names: list[str]) -> Dataset:
    y = np.arange(len(names)).repeat(6)
    return Dataset.from_arrays(np.random.default_rng(0).random((len(y), 3)), y, classes=np.array(names))


def test_birds_are_grouped_by_the_last_word() -> None:
    data = named(["001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Brewer_Blackbird", "004.Blue_Jay"])
    assert known_groups(data.classes) == ["Albatross", "Albatross", "Blackbird", "Jay"]


def test_pets_are_cats_or_dogs() -> None:
    data = named([*(name.title().replace(" ", "_") for name in sorted(CATS)), "beagle", "pug"])
    assert known_groups(data.classes) == ["cat"] * 12 + ["dog"] * 2


def test_other_names_tell_nothing() -> None:
    assert known_groups(["0", "1", "2"]) is None
    assert known_groups(["001.Blue_Jay", "002.Laysan_Albatross"]) is None  # every group has one class


def test_merging_keeps_the_labels_before() -> None:
    data = named(["a", "b", "c"])
    merged = merge_groups(data, ["y", "x", "y"])
    assert merged.classes == ["x", "y"]
    assert merged.labels.tolist() == [1] * 6 + [0] * 6 + [1] * 6
    assert merged.fine_labels is not None
    assert merged.fine_labels.tolist() == data.labels.tolist()
    assert merged.fine_classes == ["a", "b", "c"]
    assert data.classes == ["a", "b", "c"]
