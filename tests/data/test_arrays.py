import tracemalloc

import numpy as np
import pytest
import torch

from magnet.data import Dataset, open_data
from magnet.data.dataset import digest_names
from magnet.data.listings import Numbered
from magnet.errors import UserError

RNG = np.random.default_rng(0)


def vectors(n=40, d=6, **others):
    return {"X": RNG.normal(size=(n, d)).astype(np.float32), "y": np.arange(n) % 4, **others}


def save(path, compressed=False, **arrays):
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    return str(path)


def test_an_npz_is_opened_with_its_test_part(tmp_path):
    given = vectors(test=np.arange(40) >= 30)
    data = open_data(save(tmp_path / "set.npz", **given))
    assert (data.name, data.kind, data.shape, len(data)) == ("set", "vectors", (6,), 40)
    assert data.indices("test").tolist() == list(range(30, 40))
    assert data.indices("all").tolist() == list(range(40))
    assert data.labels.dtype == torch.int64
    assert data.classes == ["0", "1", "2", "3"]
    torch.testing.assert_close(data[3], torch.from_numpy(given["X"][3]))


def test_a_split_of_three_parts_is_kept(tmp_path):
    split = np.arange(40) % 3
    data = open_data(save(tmp_path / "set.npz", **vectors(split=split)), validation=0.5)
    assert (data.split == split).all()
    assert data.split.dtype == np.int8


def test_the_names_of_features_are_kept_and_must_fit(tmp_path):
    names = [f"f{i}" for i in range(6)]
    assert open_data(save(tmp_path / "a.npz", **vectors(feature_names=np.array(names)))).feature_names == names
    assert Dataset.from_arrays(**vectors()).feature_names is None
    with pytest.raises(UserError, match=r"feature_names has shape \(5,\), but X has 6 columns"):
        Dataset.from_arrays(**vectors(feature_names=np.array(names[:5])))


def test_a_large_uncompressed_array_is_mapped_from_inside_the_zip(tmp_path, monkeypatch):
    monkeypatch.setattr("magnet.data.arrays.MAP_FROM_BYTES", 2**20)
    given = vectors(5000, 64)
    data = open_data(save(tmp_path / "set.npz", **given))
    assert isinstance(data.vectors, np.memmap)
    rows = torch.tensor([4999, 0, 17])
    torch.testing.assert_close(data.batch(rows), torch.from_numpy(given["X"][rows.numpy()]))


@pytest.mark.parametrize("least", [2**20, 2**28])
def test_a_fortran_array_is_read_in_the_right_order_mapped_or_not(tmp_path, monkeypatch, least):
    monkeypatch.setattr("magnet.data.arrays.MAP_FROM_BYTES", least)
    given = vectors(5000, 64)
    np.save(tmp_path / "set.npy", np.asfortranarray(given["X"]))
    np.save(tmp_path / "y.npy", given["y"])
    packed = open_data(save(tmp_path / "set.npz", X=np.asfortranarray(given["X"]), y=given["y"]))
    for data in (packed, open_data(str(tmp_path / "set.npy"))):
        assert isinstance(data.vectors, np.memmap) == (least == 2**20)
        np.testing.assert_array_equal(data.vectors, given["X"])


def test_a_compressed_array_is_read(tmp_path):
    given = vectors(5000, 64)
    data = open_data(save(tmp_path / "set.npz", compressed=True, **given))
    np.testing.assert_array_equal(data.vectors, given["X"])


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.uint8, bool])
def test_vectors_of_any_dtype_come_out_as_float32(dtype):
    X = RNG.integers(0, 2, (12, 3)).astype(dtype)
    data = Dataset.from_arrays(X, np.arange(12) % 2)
    assert data[0].dtype == data.batch([0, 1]).dtype == torch.float32
    np.testing.assert_array_equal(data.batch(data.indices("all")).numpy(), X.astype(np.float32))


def test_writing_into_a_batch_does_not_change_the_data():
    data = Dataset.from_arrays(**vectors())
    data.batch([0])[:] = 99
    data[0][:] = 99
    assert data.vectors.max() < 99


def test_labels_may_be_names():
    data = Dataset.from_arrays(np.eye(4), ["b", "a", "b", "ö"])
    assert data.classes == ["a", "b", "ö"]
    assert data.labels.tolist() == [1, 0, 1, 2]


def test_listed_classes_without_examples_are_left_out_and_ids_stay_aligned():
    data = Dataset.from_arrays(np.eye(4), [0, 3, 3, 0], classes=["a", "b", "c", "d"])
    assert data.classes == ["a", "d"]
    assert data.labels.tolist() == [0, 1, 1, 0]


def test_digits_are_split_the_same_whatever_the_seed():
    first, other = open_data("digits", seed=0), open_data("digits", seed=1)
    assert (len(first), first.shape, len(first.indices("test"))) == (1797, (64,), 540)
    assert (first.split == other.split).all()
    assert 0 <= first.vectors.min() < first.vectors.max() == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.arange(39) % 4}, r"y has shape \(39,\), but X has 40 rows"),
        ({"y": np.zeros(40, int)}, "found one class"),
        ({"y": np.linspace(0, 1, 40)}, "expected class ids"),
        ({"y": np.arange(40), "classes": ["a", "b"]}, "y runs from 0 to 39, but there are 2 classes"),
        ({"y": np.array(["a", "x"] * 20), "classes": ["a", "b"]}, "y holds 'x'"),
        ({"X": np.zeros((40, 2, 2))}, r"shape \(40, 2, 2\), expected numbers of shape \(N, d\)"),
        ({"X": np.zeros((40, 2), complex)}, "complex128"),
        ({"split": np.full(40, 7)}, "split holds 7"),
        ({"test": np.full(40, 0.5)}, "expected True for test examples"),
        ({"name": np.array(["a"])}, r"name has shape \(1,\)"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_what_was_found(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        open_data(save(tmp_path / "set.npz", **{**vectors(), **change}))


def test_rows_with_nan_or_infinity_are_counted():
    given = vectors()
    given["X"][[1, 5, 5, 9], [0, 1, 2, 3]] = [np.nan, np.nan, np.inf, -np.inf]
    with pytest.raises(UserError, match="3 of 40 rows of X hold NaN or infinity"):
        Dataset.from_arrays(**given)


@pytest.mark.parametrize("rows", [4, 200_000])
def test_object_arrays_are_refused_and_never_unpickled(tmp_path, rows):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was run",))

    labels = np.array([Bomb()] + [0] * (rows - 1), dtype=object)
    with pytest.raises(UserError, match=r"y\.npy:? cannot be read"):
        open_data(save(tmp_path / "set.npz", X=np.zeros((rows, 2)), y=labels))


def test_an_npz_without_x_says_what_it_holds(tmp_path):
    with pytest.raises(UserError, match=r"holds \['pixels', 'y'\], expected at least X, y"):
        open_data(save(tmp_path / "set.npz", pixels=np.eye(2), y=np.arange(2)))


def test_a_file_that_is_no_npz_is_refused(tmp_path):
    (tmp_path / "set.npz").write_bytes(b"not a zip")
    with pytest.raises(UserError, match=r"cannot be read as an \.npz"):
        open_data(str(tmp_path / "set.npz"))


def test_vectors_have_no_image_size():
    with pytest.raises(UserError, match="holds vectors"):
        Dataset.from_arrays(**vectors()).with_image_size(8)


def test_a_misspelt_array_is_not_silently_ignored():
    with pytest.raises(TypeError, match="knows no 'tests'"):
        Dataset.from_arrays(**vectors(), tests=np.zeros(40, bool))


def test_numbered_names_are_the_list_of_numbers_as_text():
    names, expected = Numbered(12), [str(i) for i in range(12)]
    assert list(names) == expected
    assert (names[3], names[-1], names[2:9:3]) == ("3", "11", expected[2:9:3])
    assert names.index("7") == 7
    assert "12" not in names
    assert digest_names(names) == digest_names(expected) != digest_names([*expected[:-1], "x"])
    with pytest.raises(IndexError):
        names[12]


def test_rows_without_names_take_no_memory_for_them():
    x, y = np.zeros((50_000, 1), np.float32), np.arange(50_000) % 2
    tracemalloc.start()
    data = Dataset.from_arrays(x, y)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert data.names[49_999] == "49999"
    assert held < 20 * 50_000  # labels and parts; strings alone would be 50 bytes each
