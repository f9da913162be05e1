import numpy as np

from magnet.data import Dataset
from magnet.data.hierarchy import CATS, known_groups, merge_groups


def _dataset(names: list[str]) -> Dataset:
    y = np.arange(len(names)).repeat(6)
    return Dataset.from_arrays(np.random.default_rng(0).random((len(y), 3)), y, classes=np.array(names))


def test_birds_are_grouped_by_the_last_word() -> None:
    data = _dataset(["001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Brewer_Blackbird", "004.Blue_Jay"])
    assert known_groups(data) == ["Albatross", "Albatross", "Blackbird", "Jay"]


def test_pets_are_cats_or_dogs() -> None:
    data = _dataset([*(name.title().replace(" ", "_") for name in sorted(CATS)), "beagle", "pug"])
    assert known_groups(data) == ["cat"] * 12 + ["dog"] * 2


def test_other_names_tell_nothing() -> None:
    assert known_groups(_dataset(["0", "1", "2"])) is None
    assert known_groups(_dataset(["001.Blue_Jay", "002.Laysan_Albatross"])) is None  # every group has one class


def test_merging_keeps_the_labels_before() -> None:
    data = _dataset(["a", "b", "c"])
    merged = merge_groups(data, ["y", "x", "y"])
    assert merged.classes == ["x", "y"]
    assert merged.labels.tolist() == [1] * 6 + [0] * 6 + [1] * 6
    assert merged.fine_labels is not None
    assert merged.fine_labels.tolist() == data.labels.tolist()
    assert merged.fine_classes == ["a", "b", "c"]
    assert data.classes == ["a", "b", "c"]
