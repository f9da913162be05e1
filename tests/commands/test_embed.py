import numpy as np

from magnet.data import open_data


def test_what_is_written_can_be_read_as_data(digits_run, tmp_path, magnet):
    out = tmp_path / "new folder" / "x.npz"
    assert "1797 representations" in magnet("embed", digits_run, "--data", "digits", "--out", out)
    digits, read = open_data("digits"), open_data(str(out))
    assert np.load(out)["X"].dtype == np.float32
    assert read.labels.equal(digits.labels)
    assert (read.classes, read.names) == (digits.classes, digits.names)
    assert np.array_equal(read.split, digits.split)
    assert [file.name for file in out.parent.iterdir()] == ["x.npz"]


def test_the_representations_are_the_runs_own(digits_run, tmp_path, magnet):
    from magnet.runs.run import Run

    magnet("embed", digits_run, "--data", "digits", "--part", "train", "--out", tmp_path / "x.npz")
    assert np.allclose(np.load(tmp_path / "x.npz")["X"], Run(digits_run).references.numpy(), atol=1e-5)


def test_one_part_alone_can_be_read_again(photo_run, photos, tmp_path, magnet):
    magnet("embed", photo_run, "--data", photos, "--part", "test", "--out", tmp_path / "x.npz")
    assert len(open_data(str(tmp_path / "x.npz"))) == 7


def test_a_file_is_not_overwritten_unasked(digits_run, tmp_path, magnet, complaint):
    (tmp_path / "x.npz").write_text("precious")
    words = ("embed", digits_run, "--data", "digits", "--out", tmp_path / "x.npz")
    assert "--force" in complaint(*words)
    assert (tmp_path / "x.npz").read_text() == "precious"
    magnet(*words, "--force")
    assert len(open_data(str(tmp_path / "x.npz"))) == 1797


def test_a_failure_leaves_the_old_file(digits_run, tmp_path, monkeypatch, complaint):
    def full(*_, **__):
        raise OSError("no space left")

    (tmp_path / "x.npz").write_text("precious")
    monkeypatch.setattr(np, "savez", full)
    assert "no space left" in complaint("embed", digits_run, "--data", "digits", "--out", tmp_path / "x.npz", "--force")
    assert (tmp_path / "x.npz").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_bad_input(digits_run, tmp_path, complaint):
    out = tmp_path / "x.npz"
    assert "must end in .npz" in complaint("embed", digits_run, "--data", "digits", "--out", tmp_path / "x.csv")
    assert "no run at" in complaint("embed", tmp_path / "no", "--data", "digits", "--out", out)
    assert "does not exist" in complaint("embed", digits_run, "--data", tmp_path / "no.npz", "--out", out)
    assert "no validation" in complaint("embed", digits_run, "--data", "digits", "--out", out, "--part", "validation")
    np.save(tmp_path / "rows.npy", np.zeros((2, 64), np.float32))
    for option in (("--label", "y"), ("--part", "test")):
        words = complaint("embed", digits_run, tmp_path / "rows.npy", "--out", out, *option)
        assert "--label and --part are of labelled data" in words
    assert not out.exists()


def test_photos_without_labels_are_embedded_from_all_folders_inside(photo_run, photos, tmp_path, magnet):
    assert "24 representations" in magnet("embed", photo_run, photos, "--out", tmp_path / "x.npz")
    magnet("embed", photo_run, "--data", photos, "--out", tmp_path / "y.npz")
    found, labelled = np.load(tmp_path / "x.npz"), np.load(tmp_path / "y.npz")
    assert set(found.files) == {"X", "name"}
    assert list(found["name"]) == sorted(str(path) for path in photos.rglob("*.png"))
    order = [list(found["name"]).index(str(photos / name)) for name in labelled["name"]]
    assert np.allclose(found["X"][order], labelled["X"], atol=1e-5)


def test_vectors_without_labels_are_embedded(digits_run, tmp_path, magnet):
    vectors = open_data("digits").vectors[:5]
    np.save(tmp_path / "new.npy", vectors)
    np.savez(tmp_path / "new.npz", data=vectors)  # as --data takes it too
    np.savetxt(tmp_path / "new.csv", vectors, delimiter=";")
    np.savetxt(tmp_path / "new.tsv", vectors, delimiter="\t", header="\t".join(f"p{i}" for i in range(64)), comments="")
    for name in ("new.npy", "new.npz", "new.csv", "new.tsv"):
        assert "5 representations" in magnet("embed", digits_run, tmp_path / name, "--out", tmp_path / f"{name}.npz")


def test_fewer_dimensions_are_the_first_of_all_in_order(digits_run, tmp_path, magnet, complaint):
    words = ("embed", digits_run, "--data", "digits", "--part", "test", "--out")
    sizes = {name: tmp_path / f"{name}.npz" for name in ("short", "long", "plain")}
    magnet(*words, sizes["short"], "--dims", "9")
    width = np.load(sizes["short"])["X"].shape[1]
    magnet(*words, sizes["plain"])
    full = np.load(sizes["plain"])["X"]
    magnet(*words, sizes["long"], "--dims", str(full.shape[1]))
    ordered = np.load(sizes["long"])["X"]
    assert width == 9
    assert np.allclose(np.load(sizes["short"])["X"], ordered[:, :9], atol=1e-5)
    apart = [np.linalg.norm(r[1:] - r[:-1], axis=1) for r in (full, ordered)]
    assert np.allclose(*apart, rtol=1e-3)  # a rotation keeps all distances
    assert "--dims must be 1 to" in complaint(*words, tmp_path / "x.npz", "--dims", "100000")
    assert "--dims must be at least 0" in complaint(*words, tmp_path / "x.npz", "--dims", "-1")


def test_classify_and_search_work_with_fewer_dimensions(digits_run, tmp_path, magnet):
    np.save(tmp_path / "new.npy", open_data("digits").vectors[:40])
    whole, short = (
        magnet("classify", digits_run, tmp_path / "new.npy", "--json", *dims) for dims in ((), ("--dims", "9"))
    )
    same = [a["label"] == b["label"] for a, b in zip(whole, short, strict=True)]
    assert sum(same) >= 36  # nine directions tell ten classes apart
    assert any(a["probability"] != b["probability"] for a, b in zip(whole, short, strict=True))
    found = magnet("search", digits_run, tmp_path / "new.npy", "--json", "--dims", "9", "--count", "3")
    assert all(len(row["nearest"]) == 3 for row in found)
