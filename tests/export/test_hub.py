"""A folder for the Hugging Face Hub: written, loaded again, and pushed to a small Hub of this machine."""

import base64
import hashlib
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import load_digits

import magnet
from magnet.cli import main
from magnet.runs.run import Run

pytest.importorskip("huggingface_hub")
from magnet.export.hub import HubModel, make_card

X = (load_digits().data[:100] / 16).astype(np.float32)


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """Whoever asks for another machine fails; no token and no cache of whoever runs the tests is used."""
    connect = socket.socket.connect

    def connect_here(self, address):
        assert address[0] == "127.0.0.1", f"connected to {address}"
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setenv("HF_TOKEN", "hf_for_the_tests")


class SmallHub(BaseHTTPRequestHandler):
    """The part of the Hub's HTTP interface that pushing and loading a model takes."""

    protocol_version = "HTTP/1.1"
    files: ClassVar[dict[str, bytes]] = {}
    commit = 40 * "a"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Authorization"] == "Bearer hf_for_the_tests"
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            return self.answer({"url": f"http://{self.headers['Host']}/{name}", "name": name})
        if self.path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if self.path == "/api/models/me/digits/preupload/main":
            modes = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            return self.answer({"files": [mode | {"shouldIgnore": False, "oid": None} for mode in modes]})
        if self.path == "/api/models/me/digits/commit/main":
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            url = f"http://{self.headers['Host']}/me/digits/commit/{self.commit}"
            return self.answer({"success": True, "commitOid": self.commit, "commitUrl": url, "hookOutput": ""})
        return self.answer({"error": "Repository Not Found"}, 404)

    def do_GET(self):
        name = re.sub(f"^/me/digits/resolve/(main|{self.commit})/", "", self.path)
        if name in self.files:
            return self.reply(200, self.files[name], etag=True)
        if self.path.startswith("/api/models/me/digits"):
            files = [{"rfilename": name, "path": name, "type": "file", "oid": "b", "size": 1} for name in self.files]
            if "/tree/" in self.path:
                return self.answer(files)
            return self.answer({"id": "me/digits", "sha": self.commit, "siblings": files, "tags": [], "downloads": 0})
        return self.answer({"error": "not found"}, 404)

    do_HEAD = do_GET

    def answer(self, content, status=200):
        self.reply(status, json.dumps(content).encode())

    def reply(self, status, content, etag=False):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/octet-stream" if etag else "application/json")
        if etag:
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", self.commit)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *words):
        pass


@pytest.fixture
def hub(monkeypatch):
    """The address of a Hub of this machine, which the real client is told to talk to."""
    SmallHub.files = {}
    with ThreadingHTTPServer(("127.0.0.1", 0), SmallHub) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", address)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield address
        server.shutdown()
        thread.join()


def same(one, two):
    a, b = one.classify(X), two.classify(X)
    assert a.labels == b.labels
    np.testing.assert_array_equal(a.probabilities, b.probabilities)
    assert [row[0].name for row in one.search(X[:5])] == [row[0].name for row in two.search(X[:5])]


def test_the_command_writes_a_folder_that_gives_the_same_predictions(digits_run, tmp_path, capsys):
    assert main(["export", str(digits_run), "--to", str(tmp_path / "hub"), "--hub"]) == 0
    files = {file.name for file in (tmp_path / "hub").iterdir()}
    assert {"config.json", "README.md", "bundle.json", "network.safetensors", "clusters.safetensors"} <= files
    same(magnet.load(digits_run), magnet.load(tmp_path / "hub"))
    same(magnet.load(digits_run), HubModel.from_pretrained(tmp_path / "hub").model)
    assert main(["export", str(digits_run), "--to", str(tmp_path / "hub"), "--hub", "--force"]) == 0


def test_the_mixin_saves_and_loads_the_same_model(digits_run, tmp_path):
    model = HubModel(Run(digits_run))
    model.save_pretrained(tmp_path / "saved")
    same(model.model, HubModel.from_pretrained(str(tmp_path / "saved")).model)
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert (config["library_name"], config["num_labels"], config["id2label"]["3"]) == ("magnet-loss", 10, "3")
    assert not list((tmp_path / "saved").glob(".*"))


def test_the_card_says_what_was_measured_and_nothing_of_the_machine(digits_run, tmp_path):
    card = make_card(Run(digits_run))
    assert card.data.library_name == "magnet-loss"
    error = magnet.evaluate(digits_run)["knc"]["error"]
    assert f"Error {100 * error:.1f} % on the 540 examples of the test part" in card.text
    assert str(tmp_path.parent) not in str(card)
    assert "The error is not known here" in make_card(magnet.load(digits_run)).text


def test_what_is_pushed_is_loaded_again_from_the_hub(digits_run, tmp_path, hub, capsys):
    assert main(["export", str(digits_run), "--to", str(tmp_path / "a"), "--hub"]) == 0
    assert SmallHub.files == {}  # nothing is pushed unasked
    assert main(["export", str(digits_run), "--to", str(tmp_path / "b"), "--push", "me/digits"]) == 0
    assert f"pushed to {hub}/me/digits" in capsys.readouterr().out
    assert SmallHub.files == {file.name: file.read_bytes() for file in (tmp_path / "b").iterdir()}
    same(magnet.load(digits_run), HubModel.from_pretrained("me/digits").model)
    SmallHub.files.clear()
    HubModel(Run(digits_run)).push_to_hub("me/digits")
    same(magnet.load(digits_run), HubModel.from_pretrained("me/digits", cache_dir=tmp_path / "c").model)


def test_a_push_that_fails_is_said_in_a_line(digits_run, tmp_path, monkeypatch, complaint):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    said = complaint("export", str(digits_run), "--to", str(tmp_path / "c"), "--push", "me/digits")
    assert "is written, but cannot be pushed to me/digits: " in said
    assert "refused" in said
    assert "expected USER/NAME" in complaint("export", str(digits_run), "--to", str(tmp_path / "d"), "--push", "digits")
    assert not (tmp_path / "d").exists()
    assert "for folders" in complaint("export", str(digits_run), "--to", str(tmp_path / "x.onnx"), "--hub")
