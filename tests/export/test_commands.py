import shutil

import numpy as np
import pytest

import magnet


def test_a_bundle_is_classified_and_searched_like_the_run(photo_run, photos, tmp_path, command):
    said = command("export", photo_run, "--to", tmp_path / "model")
    assert "6 clusters and 17 references" in said
    photo = photos / "blue" / "1.png"
    for name in ("classify", "search"):
        assert command(name, tmp_path / "model", photo, "--json") == command(name, photo_run, photo, "--json")


def test_without_references_there_are_labels_but_no_search(digits_run, tmp_path, command, complaint, digits):
    found = command("export", digits_run, "--to", tmp_path / "model", "--no-with-references", "--json")
    assert found["references"] == 0
    assert found["bytes"] == sum(file.stat().st_size for file in (tmp_path / "model").iterdir())
    np.save(tmp_path / "x.npy", digits[0][:1])
    (answer,) = command("classify", tmp_path / "model", tmp_path / "x.npy", "--json")
    assert answer["clusters"][0]["nearest"] == []
    assert "has no references" in complaint("search", tmp_path / "model", tmp_path / "x.npy")


def test_noise_is_marked_and_refused_when_asked(digits_run, tmp_path, command):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).uniform(0, 40, (1, 64)))
    (answer,) = command("classify", digits_run, tmp_path / "noise.npy", "--json")
    assert answer["novel"]
    assert answer["label"] is not None
    (answer,) = command("classify", digits_run, tmp_path / "noise.npy", "--json", "--refuse")
    assert answer["label"] is None
    assert "unknown: unlike anything known" in command("classify", digits_run, tmp_path / "noise.npy", "--refuse")


def test_an_onnx_file_is_checked_and_said_to_be(digits_run, tmp_path, command, complaint):
    pytest.importorskip("onnxruntime")
    path = tmp_path / "new" / "m.onnx"
    assert "agrees with PyTorch on 64 examples of the run's data" in command("export", digits_run, "--to", path)
    assert "exists already" in complaint("export", digits_run, "--to", path)
    magnet.load(digits_run).save(tmp_path / "bundle")
    assert "was written by `magnet export`, which keeps no data" in complaint("suspects", tmp_path / "bundle")
    found = command("export", tmp_path / "bundle", "--to", path, "--force", "--json")
    assert found["bytes"] == path.stat().st_size
    assert not found["real"]
    assert found["measured"] is None  # a folder has no test part
    assert max(found["representation"], found["probabilities"]) < 1e-4


def test_bad_input(digits_run, tmp_path, complaint):
    assert "no such folder" in complaint("export", tmp_path / "nowhere", "--to", tmp_path / "m")
    assert "is not a run" in complaint("export", tmp_path, "--to", tmp_path / "m")
    assert "exists already" in complaint("export", digits_run, "--to", digits_run)
    assert "is for folders" in complaint("export", digits_run, "--to", tmp_path / "m.onnx", "--with-references")


def test_a_run_whose_data_is_gone_is_exported_from_what_it_remembers(photo_run, photos, tmp_path, command, complaint):
    run = shutil.copytree(photo_run, tmp_path / "run", ignore=shutil.ignore_patterns("cache"))
    data = shutil.copytree(photos, tmp_path / "photos")
    config = (run / "config.yaml").read_text().replace(str(photos), str(data))
    (run / "config.yaml").write_text(config)
    magnet.load(run)
    shutil.rmtree(data)
    assert command("export", run, "--to", tmp_path / "model", "--json")["references"] == 17
    shutil.rmtree(run / "cache")
    assert "cannot be opened" in complaint("export", run, "--to", tmp_path / "other")
