import numpy as np
import pytest

from magnet.data import open_data


def test_photos_get_their_label_and_the_reasons(photo_run, photos, magnet):
    files = [photos / name / "3.png" for name in ("blue", "grün", "red [bold]fox")]
    answers = magnet("classify", photo_run, *files, "--json")
    assert [answer["input"] for answer in answers] == [str(file) for file in files]
    for answer, file in zip(answers, files, strict=True):
        assert answer["label"] == file.parent.name
        assert answer["top"][0] == {"label": answer["label"], "probability": answer["probability"]}
        assert sum(entry["probability"] for entry in answer["top"]) == pytest.approx(1)
        clusters = answer["clusters"]
        assert len(clusters) == 3
        assert clusters[0]["distance"] == min(cluster["distance"] for cluster in clusters)
        assert sum(cluster["vote"] for cluster in clusters) <= 1 + 1e-6
        assert all(name.startswith(file.parent.name) for name in clusters[0]["nearest"])


def test_names_are_shown_as_they_are(photo_run, photos, magnet):
    shown = magnet("classify", photo_run, photos / "red [bold]fox" / "1.png")
    assert "[bold]fox" in shown
    assert "nearest examples" in shown


def test_a_photo_gets_the_same_answer_alone_and_among_others(photo_run, photos, magnet):
    alone = magnet("classify", photo_run, photos / "blue" / "1.png", "--json")
    folder = magnet("classify", photo_run, photos / "blue", "--json")
    assert len(folder) == 8
    distances, votes = ([cluster[key] for cluster in folder[1]["clusters"]] for key in ("distance", "vote"))
    assert distances == pytest.approx([cluster["distance"] for cluster in alone[0]["clusters"]], rel=1e-4)
    assert votes == pytest.approx([cluster["vote"] for cluster in alone[0]["clusters"]], abs=1e-5)


def test_vectors_come_as_npy_npz_or_csv(digits_run, tmp_path, magnet):
    digits = open_data("digits")
    rows = digits.vectors[:3]
    np.save(tmp_path / "x.npy", rows)
    np.savez(tmp_path / "x.npz", X=rows, name=["first", "second", "third"])
    np.savetxt(tmp_path / "x.csv", rows, delimiter=",", header=",".join(f"p{i}" for i in range(64)), comments="")
    np.save(tmp_path / "one.npy", rows[0])
    answers = magnet("classify", digits_run, *(tmp_path / f"x.{kind}" for kind in ("npy", "npz", "csv")), "--json")
    labels = [answer["label"] for answer in answers]
    assert labels == labels[:3] * 3  # whatever they came in
    truth = [digits.classes[digits.labels[i]] for i in range(3)]
    assert sum(found == true for found, true in zip(labels, truth, strict=False)) >= 2  # the run is a short one
    assert [answer["input"] for answer in answers[2:4]] == [f"{tmp_path / 'x.npy'}:2", "first"]
    (single,) = magnet("classify", digits_run, tmp_path / "one.npy", "--top", "1", "--json")
    assert single["label"] == labels[0]
    assert len(single["top"]) == len(single["clusters"]) == 1


def test_bad_photos(photo_run, photos, tmp_path, complaint):
    (tmp_path / "torn.png").write_bytes((photos / "blue" / "0.png").read_bytes()[:200])
    line = complaint("classify", photo_run, photos / "blue" / "0.png", tmp_path / "torn.png")
    assert "torn.png: cannot be read as an image" in line
    assert "does not exist" in complaint("classify", photo_run, tmp_path / "no.jpg")
    (tmp_path / "empty").mkdir()
    assert "no images" in complaint("classify", photo_run, tmp_path / "empty")
    assert "give photos" in complaint("classify", photo_run)
    assert "--top" in complaint("classify", photo_run, tmp_path / "torn.png", "--top", "0")
    assert "no run at" in complaint("classify", tmp_path / "nowhere", tmp_path / "torn.png")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("wide.npy", np.zeros((2, 65)), "rows of 64 numbers"),
        ("odd.npy", np.full((1, 64), np.nan), "NaN"),
        ("text.npy", np.array([["a"] * 64]), "rows of 64 numbers"),
        ("objects.npy", np.array([{}], dtype=object), "cannot be read"),
    ],
)
def test_bad_vectors(digits_run, tmp_path, complaint, name, content, words):
    np.save(tmp_path / name, content, allow_pickle=True)
    assert words in complaint("classify", digits_run, tmp_path / name)


def test_bad_vector_files(digits_run, tmp_path, complaint):
    (tmp_path / "x.csv").write_text("1,2,3\n4,5\n")
    assert "x.csv: cannot be read" in complaint("classify", digits_run, tmp_path / "x.csv")
    (tmp_path / "x.npz").write_text("not a zip")
    assert "x.npz" in complaint("classify", digits_run, tmp_path / "x.npz")
    (tmp_path / "x.jpg").write_text("")
    assert "trained on vectors" in complaint("classify", digits_run, tmp_path / "x.jpg")


def test_a_folder_is_taken_with_all_folders_inside(photo_run, photos, magnet):
    answers = magnet("classify", photo_run, photos, "--json")
    assert [answer["input"] for answer in answers] == sorted(str(path) for path in photos.rglob("*.png"))
