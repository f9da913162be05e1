import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch.nn import functional

import magnet
from magnet.errors import UserError
from magnet.export import export_onnx, load
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.train import train

onnxruntime = pytest.importorskip("onnxruntime")


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def check(run, path, queries, expected):
    """The file agrees with PyTorch to 1e-4 on batches of one and of seven."""
    checked = export_onnx(run, path)
    assert checked.real
    assert max(checked.representation, checked.probabilities) <= 1e-4
    assert [file.name for file in path.parent.iterdir() if file.name.startswith(path.name)] == [path.name]
    model = load(run.folder)
    for count in (1, 7):
        names = ["representation", "probabilities", "cluster"]
        r, p, cluster = session(path).run(names, {"inputs": queries[:count]})
        assert r.shape == (count, model.network.dim)
        assert p.shape == (count, len(model.classes))
        answers = model.judge(expected[:count])
        np.testing.assert_allclose(r, expected[:count], atol=1e-4 * max(1, float(expected.abs().max())))
        np.testing.assert_allclose(p, answers.probabilities, atol=1e-4)
        assert cluster.tolist() == answers.clusters[:, 0].tolist()
    return dict(session(path).get_modelmeta().custom_metadata_map)


@pytest.mark.parametrize("settings", [{"backbone": "linear"}, {"backbone": "mlp", "method": "triplet"}], ids=str)
def test_a_vector_network_says_the_same_in_onnx(tmp_path, digits, settings):
    config = TrainConfig(data="digits", steps=20, evaluate=False, quiet=True, out=tmp_path / "run", **settings)
    run = Run(train(config, silent=True))
    x = digits[0][digits[2] == 2]
    check(run, tmp_path / "m.onnx", x[:7].astype(np.float32), run.embed(run.data.indices("test")[:7]))


def test_fewer_voters_than_clusters_are_in_the_graph(tmp_path, digits):
    config = TrainConfig(data="digits", steps=20, evaluate=False, quiet=True, neighbours=5, out=tmp_path / "run")
    run = Run(train(config, silent=True))
    x = digits[0][digits[2] == 2]
    facts = check(run, tmp_path / "m.onnx", x[:7].astype(np.float32), run.embed(run.data.indices("test")[:7]))
    assert facts["neighbours"] == "5"


def test_photos_prepared_as_the_metadata_say_get_the_same_answer(photo_run, photos, tmp_path):
    run = Run(photo_run)
    rows = torch.arange(7)
    pixels = []
    for name in run.data.names[:7]:
        image = ImageOps.exif_transpose(Image.open(photos / name)).convert("RGB")
        square = ImageOps.fit(image, (21, 21), Image.Resampling.BILINEAR)
        x = torch.from_numpy(np.array(square)).permute(2, 0, 1)[None] / 255
        x = functional.interpolate(x, (18, 18), mode="bicubic", align_corners=False, antialias=False).clamp(0, 1)
        pixels.append(x[..., 1:17, 1:17])
    facts = check(run, tmp_path / "m.onnx", torch.cat(pixels).numpy(), run.embed(rows))
    preprocessing = json.loads(facts["preprocessing"])
    assert (preprocessing["short_side"], preprocessing["size"]) == (18, 16)
    assert preprocessing["resize"].endswith("the short side to 18, with antialiasing; cut out the centre, 16 x 16")
    assert preprocessing["stored_side"] == 21
    assert "resize the short side to 21 and keep the centre square" in preprocessing["exactly"]
    assert preprocessing["value_range"] == [0, 1]
    assert json.loads(facts["classes"]) == ["blue", "grün", "red [bold]fox"]
    assert json.loads(facts["cluster_labels"]) == ["blue"] * 2 + ["grün"] * 2 + ["red [bold]fox"] * 2
    rule = run.rule("knc")
    assert (float(facts["variance"]), float(facts["scaling"])) == (rule.variance, 6.0)
    assert (facts["method"], facts["magnet_version"]) == ("magnet", magnet.__version__)
    assert float(facts["temperature"]) == run.calibration.temperatures["knc"]


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["googlenet", "timm/tf_efficientnet_lite0"])
def test_a_large_network_says_the_same_in_onnx(photos, tmp_path, backbone):
    if backbone.startswith("timm") and not find_spec("timm"):
        pytest.skip("timm is not installed")
    config = TrainConfig(
        data=str(photos), backbone=backbone, image_size=64, steps=1, workers=0, clusters_per_class=2, dim=32,
        clusters_per_batch=3, test_draws=1, evaluate=False, quiet=True, out=tmp_path / "run",
    )  # fmt: skip
    run = Run(train(config, silent=True))
    raw = run.data.batch(torch.arange(7))
    inputs = run.views.augment.centre(raw).numpy()
    check(run, tmp_path / "m.onnx", inputs, run.embed(torch.arange(7)))


def test_the_check_refuses_a_file_that_is_wrong_and_leaves_nothing(digits_run, tmp_path, monkeypatch):
    from magnet.export import onnx

    class Wrong(onnx.Graph):
        def forward(self, inputs):
            r, p, cluster = super().forward(inputs)
            return r, p * 0.99, cluster

    monkeypatch.setattr(onnx, "Graph", Wrong)
    with pytest.raises(UserError, match="differs from PyTorch"):
        export_onnx(Run(digits_run), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_said_with_the_line_that_installs_it(digits_run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"needs onnxscript.*pip install 'magnet-loss\[onnx\]'"):
        export_onnx(Run(digits_run), tmp_path / "m.onnx")
