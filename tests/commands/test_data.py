from contextlib import suppress

import numpy as np
import pytest

from magnet.data import SOURCES


def test_the_sets_are_listed(magnet):
    shown = magnet("data")
    assert all(name in shown for name in SOURCES)
    assert "7,349" in shown


def test_look_tells_what_is_in_vectors(tmp_path, magnet):
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "x.npz", X=rng.normal(size=(30, 5)), y=["few [red]"] * 10 + ["many"] * 20,
        attributes=rng.integers(0, 2, (30, 2)), attribute_names=["small", "round"],
    )  # fmt: skip
    shown = magnet("data", "look", tmp_path / "x.npz")
    assert "30 vectors of 5 numbers" in shown
    assert "few [red], 10" in shown
    assert "many, 20" in shown
    assert "21 train, 0 validation, 9 test" in shown
    assert "2 by image: small, round" in shown


def test_look_names_the_photos_that_cannot_be_read(photos, tmp_path, magnet):
    import shutil

    folder = shutil.copytree(photos, tmp_path / "photos")
    (folder / "blue" / "bad.png").write_text("no image")
    shown = magnet("data", "look", folder)
    assert "24 images" in shown
    assert "1 files" in shown
    assert "bad.png" in shown


def test_fetch_downloads_to_the_folder(tmp_path, magnet, monkeypatch):
    from magnet.data import fetch as module

    def pretend(name, folder, progress):
        progress("a.tar", 1, 2)
        progress("a.tar", 2, 2)
        return folder

    monkeypatch.setattr(module, "fetch", pretend)
    assert f"--data pets:{tmp_path}" in magnet("data", "fetch", "pets", "--to", tmp_path)


def test_bad_input(tmp_path, complaint):
    assert "did you mean look?" in complaint("data", "lok")
    assert "does not exist" in complaint("data", "look", tmp_path / "nowhere")
    assert "found no images" in complaint("data", "look", tmp_path)
    assert "no set is called" in complaint("data", "fetch", "nothing", "--to", tmp_path)
    assert "image-net.org" in complaint("data", "fetch", "imagenet-attributes", "--to", tmp_path)


@pytest.mark.parametrize("words", [(), ("look",), ("fetch",)])
def test_help_of_the_parts(words, capsys):
    from magnet.cli import main

    with suppress(SystemExit):
        main(["data", *words, "--help"])
    assert "magnet data" in capsys.readouterr().out
