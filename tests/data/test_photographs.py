"""What looks like photographs, and what does not."""

import csv

import numpy as np
import pytest
from PIL import Image

from magnet.data import open_data
from magnet.data.sources import are_photographs, short_side


def picture(path, width, height):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(path)
    return path


@pytest.fixture
def folder(tmp_path):
    for name in "ab":
        for i, sides in enumerate([(80, 100), (300, 200), (90, 70)]):
            picture(tmp_path / "photos" / name / f"{i}.png", *sides)
    return tmp_path / "photos"


def test_image_files_of_some_size_are_photographs_in_a_folder_a_table_or_a_named_set(folder, tmp_path):
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([["path", "label"], ["photos/a/0.png", "x"], ["photos/b/1.png", "y"]])
    for spec in (str(folder), str(table), f"pets:{folder}"):
        assert are_photographs(spec), spec


def test_photographs_in_a_table_are_found_by_the_column_of_their_labels(folder, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    images = [file.read_bytes() for file in sorted(folder.rglob("*.png"))]
    table = pyarrow.table({"image": images, "species": ["a"] * 3 + ["b"] * 3})
    parquet.write_table(table, tmp_path / "photos.parquet")
    assert are_photographs(str(tmp_path / "photos.parquet"), "species")


def test_icons_vectors_and_what_is_not_there_are_no_photographs(tmp_path):
    picture(tmp_path / "icons" / "a" / "0.png", 28, 28)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.csv").write_bytes(b"\xff\xfe\x00")
    for spec in ("icons", "empty", "nowhere", "features.npz", "broken.csv"):
        assert not are_photographs(str(tmp_path / spec)), spec
    assert not are_photographs("digits")


def test_the_size_is_the_median_short_side_of_what_can_be_read(folder, tmp_path):
    (tmp_path / "text.png").write_text("no image")
    assert short_side([*sorted((folder / "a").iterdir()), tmp_path / "text.png"]) == 80
    assert short_side([]) == 0
    assert open_data(str(folder)).short_side == 80
