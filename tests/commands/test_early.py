"""What is wrong with a command line is said before torch is imported, which takes seconds."""

import json
import resource
import subprocess
import sys

import numpy as np
import pytest

from magnet.cli import COMMANDS
from magnet.training.config import CONFIG, TrainConfig

SCRIPT = """
import contextlib, io, json, sys
from magnet.cli import main
for words, expected in json.loads(sys.argv[1]):
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = main(words)
    assert code == 2, (words, code, said.getvalue())
    assert expected in said.getvalue(), (words, said.getvalue())
    assert said.getvalue().count(chr(10)) <= 12, said.getvalue()
    assert 'torch' not in sys.modules, words
"""
# What each command is given in place of a path that exists; others are given the folder of a run that does not.
WRONG = {
    "demo": ["--out", "x.npz"],
    "data": ["look", "gone"],
    "train": ["--data", "gone"],
    "tune": ["--data", "gone"],
    "reproduce": ["metrics", "--data", "gone"],
    "embed": ["gone", "x.npz", "--out", "new.npz"],
    "classify": ["gone", "x.npz"],
    "search": ["gone", "x.npz"],
    "verify": ["gone", "x.npz", "x.npz"],
    "export": ["gone", "--to", "bundle-2"],
    "bench": ["--docs", "gone"],
}


@pytest.fixture
def place(tmp_path):
    """A folder with the outside of a run, a bundle, vectors and a file: enough for what is said before torch."""
    (tmp_path / "run").mkdir()
    TrainConfig("digits", out=tmp_path / "run").save(tmp_path / "run" / CONFIG)
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "bundle.json").write_text("{}")
    np.savez(tmp_path / "x.npz", X=np.zeros((4, 2)), y=np.array([0, 0, 1, 1]))
    (tmp_path / "file.onnx").write_text("")
    (tmp_path / "v.csv").write_text("a,kind\n1,x\n2,y\n")
    (tmp_path / "page.html").mkdir()
    return tmp_path


def test_wrong_paths_and_names_are_said_without_torch_by_every_command(place):
    run, x, gone = str(place / "run"), str(place / "x.npz"), str(place / "gone")
    out, onnx, page = str(place / "out"), str(place / "file.onnx"), str(place / "page.html")
    train = ["--data", x]
    cases = [
        (["train", "--data", gone], "does not exist"),
        (["train", "--data", f"pets:{gone}"], "is incomplete"),
        (["train", "--data", "pest:folder"], "did you mean pets?"),
        (["train", *train, "--out", run], "holds a run already"),
        (["train", *train, "--method", "magnets"], "did you mean magnet?"),
        (["train", *train, "--backbone", "lineer"], "did you mean linear?"),
        (["train", *train, "--preset", "vector"], "did you mean vectors?"),
        (["train", *train, "--weights", gone], "does not exist"),
        (["train", *train, "--warm-start", gone], "no run at"),
        (["train", *train, "--epochs", "-2"], "--epochs must be at least -1"),
        (["train", "--config", gone], "does not exist"),
        (["train", "--config", f"{run}/{CONFIG}", "--preset", "vectors"], "leave out --preset"),
        (["train", "--resume", gone], "no run at"),
        (["tune", "--data", gone], "does not exist"),
        (["tune", *train, "--method", "magnets"], "did you mean magnet?"),
        (["tune", *train, "--backbone", "lineer"], "did you mean linear?"),
        (["tune", *train, "--preset", "vector"], "did you mean vectors?"),
        (["reproduce", "metric", *train], "did you mean metrics?"),
        (["reproduce", "metrics", "--data", gone], "does not exist"),
        (["reproduce", "metrics", *train, "--methods", "magnets(alpha=2)"], "did you mean magnet?"),
        (["reproduce", "metrics", *train, "--backbone", "lineer"], "did you mean linear?"),
        (["reproduce", "metrics", *train, "--preset", "vector"], "did you mean vectors?"),
        (["reproduce", "metrics", *train, "--settings", gone], "--settings must be"),
        (["reproduce", "metrics", *train, "--against", gone], "--against must be"),
        (["evaluate", gone], "no run at"),
        (["evaluate", str(place)], "is not a run"),
        (["evaluate", run, "--data", gone], "does not exist"),
        (["embed", gone, "--data", x, "--out", out + ".npz"], "no run at"),
        (["embed", run, "--data", gone, "--out", out + ".npz"], "does not exist"),
        (["embed", run, gone, "--out", out + ".npz"], "does not exist"),
        (["embed", run, "--out", out + ".npz"], "give what to embed"),
        (["embed", run, "--data", x, "--out", x], "exists already"),
        (["classify", gone, x], "no run at"),
        (["classify", onnx, x], "for onnxruntime"),
        (["classify", run, gone], "does not exist"),
        (["search", gone, x], "no run at"),
        (["search", run, gone], "does not exist"),
        (["train", *train, "--label", "Y2"], "there is no column 'Y2' for --label"),
        (["train", "--data", str(place / "v.csv")], "found no column of labels among the columns 'a', 'kind'"),
        (["data", "look", x, "--judge", "z"], "there is no column 'z' for --judge"),
        (["verify", gone, x, x], "no run at"),
        (["verify", run, x, gone], "does not exist"),
        (["suspects", gone], "no run at"),
        (["suspects", run, "--out", "x.txt"], "must end in .csv"),
        (["serve", gone], "no run at"),
        (["serve", run, "--port", "70000"], "--port must be between"),
        (["report", gone], "no run at"),
        (["report", run, "--out", page], "must be a file"),
        (["explore", gone], "no run at"),
        (["explore", run, "--out", page], "must be a file"),
        (["explore", run, "--out", str(place)], "holds other files"),
        (["explore", run, "--table", "table.txt"], "must end in .csv"),
        (["export", gone, "--to", out], "no run at"),
        (["export", run, "--to", onnx], "exists already"),
        (["export", run, "--to", str(place / "bundle")], "--force to replace it"),
        (["data", "look", gone], "does not exist"),
        (["data", "fetch", "pest", "--to", out], "did you mean pets?"),
        (["bench", "--only", "stepp"], "did you mean step?"),
        (["bench", "--docs", gone], "does not exist"),
        (["demo", "--out", x], "is a file"),
    ]
    words = [sys.executable, "-c", SCRIPT, json.dumps(cases)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=place)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not (place / "out").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_path_is_said_within_a_second_and_a_half_of_processor_time(command, place):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "magnet", command, *WRONG.get(command, ["gone"])]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=place)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 2
    assert any(word in done.stderr for word in ("gone", "x.npz")), done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.5
