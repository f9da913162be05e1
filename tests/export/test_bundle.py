import builtins
import json
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import magnet
from magnet.data.images import decode
from magnet.errors import UserError
from magnet.export import export_bundle
from magnet.export.description import preprocessing
from magnet.files import read_record, write_record
from magnet.runs.run import Run


@pytest.fixture
def bundle(digits_run, tmp_path):
    return export_bundle(Run(digits_run), tmp_path / "bundle")


def same(one, other):
    assert one.labels == other.labels
    for a, b in zip(one[1:], other[1:], strict=True):
        assert torch.equal(a, b)


def test_a_run_and_its_bundle_give_the_same_answers(digits_run, bundle, digits):
    x, y, split = digits
    run, kept = magnet.load(digits_run), magnet.load(bundle)
    test = split == 2
    answers = kept.classify(x[test])
    same(run.classify(x[test]), answers)
    assert run.search(x[test][:5], 4) == kept.search(x[test][:5], 4)
    assert np.mean([label == str(t) for label, t in zip(answers.labels, y[test], strict=True)]) > 0.9
    assert answers.probabilities.shape == (540, 10)
    assert torch.allclose(answers.probabilities.sum(dim=1), torch.ones(540))
    assert answers.clusters.shape == answers.distances.shape == (540, 3)
    assert torch.allclose(answers.novelty, answers.distances[:, 0], atol=1e-3)


def test_a_bundle_works_after_the_run_and_the_data_are_gone(photo_run, photos, tmp_path):
    gone = shutil.copytree(photo_run, tmp_path / "run")
    data = shutil.copytree(photos, tmp_path / "photos")
    config = (gone / "config.yaml").read_text().replace(str(photos), str(data))
    (gone / "config.yaml").write_text(config)
    model = magnet.load(gone)
    photo = photos / "blue" / "0.png"
    before = model.classify(photo)
    model.save(tmp_path / "bundle")
    shutil.rmtree(gone)
    shutil.rmtree(data)
    after = magnet.load(tmp_path / "bundle")
    same(before, after.classify(photo))
    assert after.search(photo, 1)[0][0].label == "blue"


def test_a_model_gives_an_image_the_representation_that_the_run_is_evaluated_with(photo_run, photos):
    run, model = Run(photo_run), magnet.load(photo_run)
    assert model.views.draws == 4
    rows = run.data.indices("test")
    files = [photos / run.data.names[i] for i in rows.tolist()]
    torch.testing.assert_close(model.embed(files), run.embed(rows, test=True))


def test_the_preprocessing_in_words_gives_the_plain_view(photo_run):
    model = magnet.load(photo_run)
    about = preprocessing(model.description, model.network.mean, model.network.std)
    x, y = np.meshgrid(np.linspace(0, 255, 400), np.linspace(0, 255, 300))
    photo = Image.fromarray(np.stack([x, y, 255 - x], axis=2).astype(np.uint8))
    side, size = about["short_side"], about["size"]
    small = photo.resize((round(400 * side / 300), side), Image.Resampling.BILINEAR)
    left, top = (small.width - size) // 2, (side - size) // 2
    pixels = np.array(small.crop((left, top, left + size, top + size)), np.float32) / 255
    seen = model.views.augment.centre(decode(photo, 21)[None])[0].permute(1, 2, 0).numpy()
    assert np.abs(pixels - seen).max() < 0.01


@pytest.mark.parametrize("shape", [(30, 41), (40, 30), (90, 63), (400, 601)])
@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_the_preprocessing_written_out_in_the_docs_gives_the_pixels_of_the_plain_view(
    photo_run, tmp_path, monkeypatch, shape, ending
):
    page = (Path(__file__).parents[2] / "docs" / "using-a-model.md").read_text(encoding="utf-8")
    [block] = (b for b in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M) if "def prepare" in b)
    names: dict = {}
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "block", "exec"), names)
    model = magnet.load(photo_run)
    about = preprocessing(model.description, model.network.mean, model.network.std)
    file = tmp_path / f"noise.{ending}"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)).save(file)
    seen = model.views.augment.centre(decode(file, 21)[None])[0]
    np.testing.assert_allclose(names["prepare"](file, about), seen, atol=1e-5)


def test_images_come_as_paths_opened_or_as_pixels(photo_run, photos):
    model = magnet.load(photo_run)
    files = [photos / "blue" / "0.png", photos / "grün" / "1.png"]
    expected = model.embed(files)
    pixels = np.stack([np.array(Image.open(file)) for file in files])
    for inputs in (
        [str(file) for file in files],
        [Image.open(file) for file in files],
        pixels,
        list(pixels),
        torch.from_numpy(pixels).movedim(-1, 1),
    ):
        assert torch.allclose(model.embed(inputs), expected, atol=1e-5)
    assert torch.allclose(model.embed(pixels[0]), expected[:1], atol=1e-5)
    assert model.classify(files).labels == ["blue", "grün"]
    for wrong in (pixels.astype(float), 3, [], [None]):
        with pytest.raises(UserError, match="the model takes images"):
            model.embed(wrong)


def test_vectors_come_as_arrays_tensors_or_lists(bundle, digits):
    model = magnet.load(bundle)
    x = digits[0][:3]
    expected = model.embed(x)
    for inputs in (torch.from_numpy(x), x.tolist(), x.astype(np.float64)):
        assert torch.equal(model.embed(inputs), expected)
    assert torch.allclose(model.embed(x[0]), expected[:1], atol=1e-5)
    for wrong in (x[:, :5], x[:0], np.full((1, 64), np.nan), "text", [[1, 2], [3]]):
        with pytest.raises(UserError):
            model.embed(wrong)


def test_the_description_says_what_the_model_is(bundle):
    about = json.loads((bundle / "bundle.json").read_text())
    assert about["format"] == "magnet-bundle/4"
    assert about["magnet"] == magnet.__version__
    assert about["network"]["backbone"] == "mlp"
    assert about["preprocessing"]["d"] == 64
    assert len(about["classes"]) == 10


def test_loading_never_unpickles(bundle, digits_run, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("something was to be executed")

    for module, name in (
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "Unpickler"),
        (torch, "load"),
        (builtins, "eval"),
    ):
        monkeypatch.setattr(module, name, refuse)
    magnet.load(bundle)
    magnet.load(digits_run)


@pytest.mark.parametrize(
    "name", ["network.safetensors", "clusters.safetensors", "references.safetensors", "names.json"]
)
def test_a_broken_bundle_is_said_to_be_broken(bundle, name):
    path = bundle / name
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=name.partition(".")[0]):
        magnet.load(bundle)
    path.unlink()
    with pytest.raises(UserError, match=f"{name} is missing"):
        magnet.load(bundle)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("format", "magnet-bundle/99", "magnet-bundle/99"),
        ("network", {"backbone": "mlp"}, "description"),
        (
            "network",
            {"backbone": "os.system", "shape": [64], "dim": 0, "hidden": 0, "normalised": False},
            "no backbone",
        ),
        (
            "network",
            {"backbone": "timm/resnet18@pretrained", "shape": [3, 32, 32], "dim": 0, "hidden": 0, "normalised": False},
            "no backbone",
        ),
        (
            "network",
            {"backbone": "linear", "shape": [16_000_000], "dim": 60_000, "hidden": 0, "normalised": False},
            "too small",
        ),
        ("classes", ["0"], "class 9"),
        ("classes", [0] * 10, "text"),
        ("votes", None, "description"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(bundle, key, value, words):
    write_record(bundle / "bundle.json", read_record(bundle / "bundle.json", dict) | {key: value})
    with pytest.raises(UserError, match=words):
        magnet.load(bundle)


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        magnet.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"neither config\.yaml nor bundle\.json"):
        magnet.load(tmp_path)
    (tmp_path / "m.onnx").write_text("")
    with pytest.raises(UserError, match="onnxruntime"):
        magnet.load(tmp_path / "m.onnx")


def test_nothing_but_a_bundle_is_ever_replaced(bundle, tmp_path):
    model = magnet.load(bundle)
    with pytest.raises(UserError, match="exists already"):
        model.save(bundle)
    export_bundle(model, bundle, with_references=False, force=True)
    assert magnet.load(bundle).references is None
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    with pytest.raises(UserError, match="exists already"):
        export_bundle(model, tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "thesis.txt").exists()
