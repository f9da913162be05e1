"""One number for one thing: every command shows the same error for the same view of the same examples."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

import magnet as package
from magnet.data.images import decode
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.train import train


@pytest.fixture(scope="module")
def discs(tmp_path_factory) -> Path:
    """Discs of three sizes in noise: how large one looks depends on the view, so that errors do too."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("discs") / "photos"
    for name, radius in {"small": 6, "medium": 7, "large": 8}.items():
        (folder / name).mkdir(parents=True)
        for i in range(30):
            image = Image.fromarray(rng.integers(0, 160, (30, 34, 3), dtype=np.uint8))
            ImageDraw.Draw(image).circle((17, 15), radius, fill=(190, 190, 190))
            image.save(folder / name / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def runs(discs) -> dict[str, Path]:
    common = {"backbone": "convnet", "image_size": 20, "steps": 12, "workers": 0, "clusters_per_class": 2}
    quiet = {"evaluate": False, "quiet": True, "device": "cpu"}
    return {
        method: train(
            TrainConfig(data=str(discs), method=method, test_draws=4, out=discs.parent / method, **common, **quiet),
            silent=True,
        )
        for method in ("magnet", "softmax")
    }


def share(wrong: torch.Tensor) -> float:
    return float(wrong.double().mean())


def percent(error: float) -> str:
    return f"{100 * error:.1f} %"


@pytest.mark.parametrize("method", ["magnet", "softmax"])
def test_evaluate_report_explorer_and_embed_agree(runs, method, discs, tmp_path, magnet):
    run = runs[method]
    found = magnet("evaluate", run, "--json")
    rule = found["rule"]
    assert found["n"] == 27
    assert found["plain"][rule] != {key: found[rule][key] for key in ("error", "error@5")}  # the views do differ

    magnet("explore", run, "--out", tmp_path / "page.html", "--no-open")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    shown = data["runs"][0]["test"]
    own = next(one for one in shown["rules"] if one["own"])
    assert (own["error"], own["n"], shown["n"]) == (percent(found["plain"][rule]["error"]), 27, 27)
    assert [one["error"] for one in shown["rules"]] == [percent(one["error"]) for one in found["plain"].values()]

    magnet("report", run, "--out", tmp_path / "report.html")
    text = re.sub(r"<[^>]+>", " ", (tmp_path / "report.html").read_text(encoding="utf-8"))
    for errors in (found, found["plain"]):
        for name in found["plain"]:
            assert percent(errors[name]["error"]) in text
    assert "27 test examples, mean of 4 test views of each image" in text

    magnet("embed", run, "--data", discs, "--part", "test", "--out", tmp_path / "x.npz")
    opened = Run(run)
    labels = opened.data.labels[opened.data.indices("test")]
    for name in ("knc", "knn"):
        predicted = opened.rule(name).predict(torch.from_numpy(np.load(tmp_path / "x.npz")["X"]))
        assert share(predicted != labels) == pytest.approx(found["plain"][name]["error"])


def test_an_export_has_the_error_that_it_is_said_to_have(runs, discs, tmp_path, magnet):
    run = runs["magnet"]
    found = magnet("evaluate", run, "--json")
    data = Run(run).data
    rows = data.indices("test")
    files, labels = [discs / data.names[i] for i in rows.tolist()], data.labels[rows]
    truth = [data.classes[c] for c in labels]

    said = magnet("export", run, "--to", tmp_path / "model", "--json")["measured"]
    expected = {"classifier": "kNC", "view": "mean of 4 test views", "n": 27, "split": "test"}
    assert said == expected | {"error": found["knc"]["error"]}
    answers = package.load(tmp_path / "model").classify(files).labels
    assert np.mean([a != b for a, b in zip(answers, truth, strict=True)]) == pytest.approx(said["error"])

    runtime = pytest.importorskip("onnxruntime")
    printed = magnet("export", run, "--to", tmp_path / "m.onnx")
    error = found["plain"]["knc"]["error"]
    assert f"Error {percent(error)} on the 27 examples of the test part, by kNC (plain view)" in printed
    assert "all labels the same" in printed
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["measured"]) == expected | {"view": "plain view", "error": error}
    # As its metadata say: 26 x 26 stored, 24 x 24, of which 20 x 20 are cut out.
    prepared = json.loads(about["preprocessing"])
    assert (prepared["short_side"], prepared["size"]) == (24, 20)
    raw = torch.stack([decode(file, 26) for file in files]) / 255
    seen = torch.nn.functional.interpolate(raw, (24, 24), mode="bicubic", align_corners=False)[..., 2:22, 2:22]
    seen = seen.clamp(0, 1)
    (shares,) = session.run(["probabilities"], {"inputs": seen.numpy()})
    assert share(torch.from_numpy(shares).argmax(dim=1) != labels) == pytest.approx(error)
