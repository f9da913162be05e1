import numpy as np
import torch

from magnet.data import Dataset, merge_classes


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
