"""The digest of a data set changes with what it holds, and with nothing else."""

import os
import shutil

import numpy as np
import pytest

from magnet.data import Dataset, merge_classes, open_data
from magnet.data import dataset as module
from magnet.data.listings import Listing

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5)).astype(np.float32)
Y = np.arange(60) % 4


def digest(x=X, y=Y, **more):
    return Dataset.from_arrays(x, y, **more).digest


def test_the_same_values_have_the_same_digest_however_they_are_stored(tmp_path, monkeypatch):
    monkeypatch.setattr("magnet.data.arrays.MAP_FROM_BYTES", 1)
    np.savez(tmp_path / "mapped.npz", X=X, y=Y)
    np.savez_compressed(tmp_path / "packed.npz", X=np.asfortranarray(X.astype(np.float64)), y=Y.astype(float))
    mapped, packed = (open_data(str(tmp_path / f"{name}.npz")) for name in ("mapped", "packed"))
    assert isinstance(mapped.vectors, np.memmap)
    assert mapped.digest == packed.digest == digest()


def test_an_array_is_walked_through_in_blocks(monkeypatch):
    whole = digest()
    monkeypatch.setattr("magnet.data.dataset.BLOCK", 256)
    assert digest() == whole
    moved = X.copy()
    moved[[3, 50]] = X[[50, 3]]
    assert digest(moved) != whole


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"x": X[:, ::-1]}, "other values in X (the labels are the same)"),
        ({"y": Y[::-1]}, "other labels"),
        ({"classes": ["a", "b", "c", "d"]}, "other labels"),
        ({"name": [f"row {i}" for i in range(60)]}, "other names of the examples (the labels are the same)"),
        ({"test": Y == 1}, "another split (the labels are the same)"),
        ({"attributes": Y[:, None] % 2}, "other attributes (the labels are the same)"),
        ({"x": X[:59], "y": Y[:59]}, "60 examples then, 59 now"),
        ({"x": -X, "y": Y[::-1]}, "other labels, other values in X"),
        ({"seed": 3, "validation": 0.2}, ""),
        ({"name": [str(i) for i in range(60)]}, ""),
    ],
)
def test_what_has_changed_is_said(now, said):
    before, after = digest(), digest(**now)
    assert after.changes(before) == said
    assert (after == before) == (now.keys() == {"name"} and not said)


def test_other_parts_are_another_key_though_the_source_has_not_changed():
    assert digest(seed=1).whole != digest(seed=2).whole


def test_touching_an_image_file_changes_the_digest(class_folders):
    before = open_data(str(class_folders)).digest
    assert open_data(str(class_folders)).digest == before
    os.utime(class_folders / "cat" / "3.png", ns=(0, 1))
    after = open_data(str(class_folders)).digest
    assert after.changes(before) == "other sizes or modification times of image files (the labels are the same)"


def test_on_request_image_files_are_known_by_their_bytes(class_folders, tmp_path):
    before = open_data(str(class_folders), hash_images=True).digest
    copied = shutil.copytree(class_folders, tmp_path / "copied", copy_function=shutil.copyfile)
    os.utime(copied / "cat" / "3.png", ns=(0, 1))
    assert open_data(str(copied), hash_images=True).digest == before
    (copied / "cat" / "3.png").write_bytes((copied / "cat" / "4.png").read_bytes())
    after = open_data(str(copied), hash_images=True).digest
    assert after.changes(before) == "other bytes in image files (the labels are the same)"
    # Known by something else, the files cannot be compared, and nothing is claimed of them.
    assert open_data(str(copied)).digest.changes(before) == ""


def test_image_arrays_are_known_by_their_pixels():
    pixels = RNG.integers(0, 255, (60, 8, 8), dtype=np.uint8)

    def of(content):
        return Dataset(Listing("grey", content, Y, list("abcd"), [f"{i}.png" for i in range(60)]), spec="grey").digest

    assert of(pixels).changes(of(pixels.copy())) == ""
    assert of(255 - pixels).changes(of(pixels)) == "other pixels (the labels are the same)"


def test_copies_have_their_own_labels_and_read_the_content_once(monkeypatch):
    read = []
    real = module.digest_content
    monkeypatch.setattr(module, "digest_content", lambda *given, **more: read.append(1) or real(*given, **more))
    data = Dataset.from_arrays(X, Y)
    first, second = merge_classes(data, 0), merge_classes(data, 1)
    assert len({copy.digest.labels for copy in (data, first, second)}) == 3
    assert {copy.digest.content for copy in (data, first, second)} == {data.digest.content}
    assert read == [1]


def test_hidden_labels_that_change_within_a_merged_class_are_noticed():
    merged = merge_classes(Dataset.from_arrays(X, Y), 0)
    before = merged.digest
    assert merged.fine_labels is not None
    merged.fine_labels = merged.fine_labels.flip(0)
    assert merged.digest.changes(before) == "other labels"
