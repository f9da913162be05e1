"""A folder for the Hugging Face Hub: written here, loaded again, pushed by nobody."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_digits

import magnet
from magnet.cli import main
from magnet.runs.run import Run
from magnet.training.config import TrainConfig
from magnet.training.train import train

pytest.importorskip("huggingface_hub")
from magnet.export.hub import HubModel, make_card

X = (load_digits().data[:100] / 16).astype(np.float32)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    config = TrainConfig(data="digits", steps=20, evaluate=False, quiet=True, out=tmp_path_factory.mktemp("h") / "run")
    return train(config, silent=True)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Whoever asks for the network fails."""
    monkeypatch.setattr("socket.socket.connect", lambda *a: pytest.fail("connected"))


def same(one, two):
    a, b = one.classify(X), two.classify(X)
    assert a.labels == b.labels
    np.testing.assert_array_equal(a.probabilities, b.probabilities)
    assert [row[0].name for row in one.search(X[:5])] == [row[0].name for row in two.search(X[:5])]


def test_the_command_writes_a_folder_that_gives_the_same_predictions(run, tmp_path, capsys):
    assert main(["export", str(run), "--to", str(tmp_path / "hub"), "--hub"]) == 0
    files = {file.name for file in (tmp_path / "hub").iterdir()}
    assert {"config.json", "README.md", "bundle.json", "network.safetensors", "clusters.safetensors"} <= files
    same(magnet.load(run), magnet.load(tmp_path / "hub"))
    same(magnet.load(run), HubModel.from_pretrained(tmp_path / "hub").model)
    assert main(["export", str(run), "--to", str(tmp_path / "hub"), "--hub", "--force"]) == 0


def test_the_mixin_saves_and_loads_the_same_model(run, tmp_path):
    model = HubModel(Run(run))
    model.save_pretrained(tmp_path / "saved")
    same(model.model, HubModel.from_pretrained(str(tmp_path / "saved")).model)
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert (config["library_name"], config["num_labels"], config["id2label"]["3"]) == ("magnet-loss", 10, "3")
    assert not list((tmp_path / "saved").glob(".*"))


def test_the_card_says_what_was_measured_and_nothing_of_the_machine(run, tmp_path):
    card = make_card(Run(run))
    assert card.data.library_name == "magnet-loss"
    error = magnet.evaluate(run)["knc"]["error"]
    assert f"Error {100 * error:.1f} % on the 540 examples of the test part" in card.text
    assert str(tmp_path.parent) not in str(card)
    assert "The error is not known here" in make_card(magnet.load(run)).text


def test_a_push_is_made_on_request_only_and_its_failure_is_said(run, tmp_path, monkeypatch, capsys):
    pushed = []
    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", lambda self, repo, **k: f"https://hub/{repo}")
    monkeypatch.setattr("huggingface_hub.HfApi.upload_folder", lambda self, **k: pushed.append(k))
    assert main(["export", str(run), "--to", str(tmp_path / "a"), "--hub"]) == 0
    assert pushed == []
    assert main(["export", str(run), "--to", str(tmp_path / "b"), "--push", "me/digits"]) == 0
    assert pushed == [{"repo_id": "me/digits", "folder_path": str(tmp_path / "b")}]
    assert "pushed to https://hub/me/digits" in capsys.readouterr().out

    def refuse(self, repo, **options):
        raise ValueError("not logged in")

    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", refuse)
    assert main(["export", str(run), "--to", str(tmp_path / "c"), "--push", "me/digits"]) == 2
    assert "is written, but cannot be pushed to me/digits: not logged in" in capsys.readouterr().err
    assert main(["export", str(run), "--to", str(tmp_path / "x.onnx"), "--hub"]) == 2
