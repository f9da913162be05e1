import numpy as np
import pytest

from magnet.data import open_data
from magnet.runs.run import Run


def test_a_training_vector_finds_itself_first(digits_run, tmp_path, magnet):
    digits = open_data("digits")
    row = int(digits.indices("train")[5])
    np.save(tmp_path / "x.npy", digits.vectors[row])
    ((answer),) = magnet("search", digits_run, tmp_path / "x.npy", "--count", "4", "--json")
    assert len(answer["nearest"]) == 4
    first = answer["nearest"][0]
    assert (first["name"], first["label"]) == (digits.names[row], digits.classes[digits.labels[row]])
    assert first["distance"] == pytest.approx(0, abs=1e-2)


def test_distances_are_in_sigma(digits_run, tmp_path, magnet):
    run = Run(digits_run)
    np.save(tmp_path / "x.npy", run.data.vectors[run.data.indices("test")[:1]])
    (answer,) = magnet("search", digits_run, tmp_path / "x.npy", "--count", "3", "--json")
    query = run.embed(run.data.indices("test")[:1], test=True)
    expected = (run.references - query).norm(dim=1).sort().values[:3] / run.rule("knc").variance ** 0.5
    assert [row["distance"] for row in answer["nearest"]] == pytest.approx(expected.tolist(), rel=1e-3)


def test_photos_find_photos_of_their_class(photo_run, photos, magnet):
    shown = magnet("search", photo_run, photos / "blue" / "0.png", "--count", "2")
    assert "blue" in shown
    assert "training example" in shown


def test_more_than_there_are_gives_all(photo_run, photos, magnet):
    (answer,) = magnet("search", photo_run, photos / "blue" / "0.png", "--count", "1000", "--json")
    assert len(answer["nearest"]) == 17


def test_bad_input(photo_run, tmp_path, complaint):
    (tmp_path / "x.png").write_text("no image")
    assert "x.png: cannot be read" in complaint("search", photo_run, tmp_path / "x.png")
    assert "--count" in complaint("search", photo_run, tmp_path / "x.png", "--count", "0")
    assert "no run at" in complaint("search", tmp_path / "nowhere", tmp_path / "x.png")
