"""Nothing let in: files made to mislead are refused in words, or opened as what they are."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import magnet
from faults.hostile import damaged_inputs, fuzzed_inputs, hostile_data
from faults.outcomes import GOOD, SAID, command
from faults.test_damage import bad
from magnet.data import open_data
from magnet.errors import StorageError, UserError, visible
from magnet.files import inside, lock, replacing
from training.short_runs import write_images

SOURCES = sorted(Path(magnet.__file__).parent.rglob("*.py"))


def test_hostile_data_and_settings_are_refused_in_words(tmp_path):
    assert bad(hostile_data(tmp_path, train=False)) == []


def test_inputs_that_hypothesis_makes_are_refused_in_words(tmp_path):
    assert bad(fuzzed_inputs(tmp_path, cases=150, seed=1)) == []


def test_damaged_inputs_are_refused_in_words(tmp_path):
    assert bad(damaged_inputs(tmp_path, cases=120, seed=1)) == []


@pytest.mark.parametrize("kind", ["pipe.png", "loop.png"])
def test_what_is_no_file_is_refused_when_it_comes_as_an_image(kind, tmp_path, damaged_run):
    import os

    path = tmp_path / kind
    os.mkfifo(path) if kind == "pipe.png" else path.symlink_to(path)
    from magnet.data.images import decode

    with pytest.raises((UserError, OSError)):
        decode(path, 8)


def test_a_walk_through_a_whole_disk_is_given_up(tmp_path, monkeypatch):
    from magnet.commands.inputs import read_queries
    from magnet.data import listings

    monkeypatch.setattr(listings, "MOST_OTHERS", 20)
    for name in ("a", "b"):
        (tmp_path / "disk" / name).mkdir(parents=True)
        for i in range(15):
            (tmp_path / "disk" / name / f"{i}.txt").touch()
    outcome = command("data", "look", tmp_path / "disk")
    assert (outcome.kind, "that are no images, and 0 images: is it the right folder?" in outcome.words) == (SAID, True)
    with pytest.raises(UserError, match="that are no images"):
        read_queries("images", (8, 8, 3), [tmp_path / "disk"])


def test_links_in_a_circle_are_walked_once(tmp_path):
    """Each folder held two links to itself: following them to the end of all paths would take for ever."""
    from magnet.data.sources import are_photographs

    (tmp_path / "a").mkdir()
    for name in ("b", "c"):
        (tmp_path / "a" / name).symlink_to(tmp_path / "a")
    assert not are_photographs(str(tmp_path))


def test_an_image_that_is_a_link_in_a_circle_is_named(tmp_path):
    images = write_images(tmp_path / "images", per_class=8)
    (tmp_path / "images" / "rows" / "loop.png").symlink_to("loop.png")
    options = ("--backbone", "convnet", "--hidden", 0, "--image-size", 12, "--epochs", 1, "--quiet")
    outcome = command("train", "--data", images, "--out", tmp_path / "run", *options)
    assert outcome.kind == SAID
    assert "loop.png is a symbolic link that leads in a circle" in outcome.words


def test_a_program_that_comes_as_an_image_is_not_run(tmp_path, monkeypatch):
    from PIL import EpsImagePlugin, Image

    from magnet.data.images import decode

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *a, **k: pytest.fail("PostScript was run"))
    Image.new("RGB", (9, 9)).save(tmp_path / "cat.eps")
    (tmp_path / "cat.eps").rename(tmp_path / "cat.png")
    with pytest.raises(UserError, match="not an image, or of an unknown format"):
        decode(tmp_path / "cat.png", 8)


def test_a_file_that_is_cut_while_in_use_ends_with_a_message_or_is_in_memory(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "x.npz", X=rng.normal(size=(3000, 100)), y=np.arange(3000) % 3)
    small = open_data(str(tmp_path / "x.npz"))
    monkeypatch.setattr("magnet.data.arrays.MAP_FROM_BYTES", 2**20)
    large = open_data(str(tmp_path / "x.npz"))
    last = small.batch([2999])
    with (tmp_path / "x.npz").open("r+b") as file:
        file.truncate(2**20)
    with pytest.raises(UserError, match="was cut to 1,048,576 bytes while it was in use"):
        large.batch([2999])
    assert small.batch([2999]).equal(last)


CUT_WHILE_READ = """
import os, sys
import magnet.data.arrays as arrays
from magnet.data import open_data
arrays.MAP_FROM_BYTES = 1
mapped = open_data(sys.argv[1]).vectors
os.truncate(sys.argv[1], 4096)
print(mapped.sum())
"""


def test_a_mapped_file_that_is_cut_in_the_middle_of_a_read_ends_the_process_with_a_line(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.ones((3000, 100)), y=np.arange(3000) % 3)
    ended = subprocess.run([sys.executable, "-c", CUT_WHILE_READ, str(path)], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"magnet: {path} was cut while it was being read: put it back and go on.\n"


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    outcome = command("evaluate", f"{tmp_path}/a\x1b[2J")
    assert outcome.kind == SAID
    assert "\x1b" not in outcome.words
    assert visible("ü\udcff") == "ü\\udcff"


def test_no_write_follows_a_link(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("theirs")
    (tmp_path / "run" / "file").symlink_to(tmp_path / "outside" / "file")
    with replacing(tmp_path / "run" / "file") as draft:
        draft.write_text("ours")
    assert (tmp_path / "outside" / "file").read_text() == "theirs"
    (tmp_path / "run" / "cache").symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match="leads out of"):
        inside(tmp_path / "run", "cache")
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "outside" / "new")
    with pytest.raises(StorageError, match="is a symbolic link"), lock(tmp_path / "run" / ".lock", lambda: None):
        pass
    assert not (tmp_path / "outside" / "new").exists()


PICKLES = {"pickle", "_pickle", "cPickle", "shelve", "marshal", "dill", "joblib", "cloudpickle"}


def test_nothing_unpickles_and_weights_alone_are_loaded():
    assert [(path, found) for path in SOURCES for found in unsafe(path.read_text(encoding="utf-8"))] == []


def unsafe(source):
    """What a module imports or calls that could run code from a file."""
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        keywords = {word.arg: ast.unparse(word.value) for word in node.keywords} if called else {}
        if (
            {name.partition(".")[0] for name in names} & PICKLES
            or called in ("eval", "exec")
            or (called == "torch.load" and keywords.get("weights_only") != "True")
            or (called in ("np.load", "numpy.load") and keywords.get("allow_pickle", "False") != "False")
        ):
            yield ast.unparse(node)


def test_what_could_run_code_is_found():
    for line in (
        "import pickle",
        "from joblib import load",
        "torch.load(x)",
        "np.load(x, allow_pickle=True)",
        "eval(x)",
    ):
        assert list(unsafe(line)) == [line]
    assert list(unsafe("torch.load(x, weights_only=True); np.load(x)")) == []


def test_outcomes_are_told_apart():
    assert command("evaluate", "/nowhere").kind in GOOD
    assert command("nonsense").kind == SAID
