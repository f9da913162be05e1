"""The demo, short."""

import json
import re

import pytest

from magnet.cli import main

pytestmark = pytest.mark.usefixtures("few_digits")


def test_the_demo_prints_its_table_draws_its_maps_and_writes_the_explorer(tmp_path, capsys):
    assert main(["demo", "--out", str(tmp_path / "demo"), "--epochs", "3", "--seeds", "1", "--quiet"]) == 0
    shown = capsys.readouterr().out
    for word in ("softmax", "triplet", "magnet", "kNC", "soft kNN", "hidden digits"):
        assert word in shown
    picture = tmp_path / "demo" / "maps.png"
    assert picture.stat().st_size > 20_000
    assert (tmp_path / "demo" / "magnet" / "config.yaml").is_file()
    page = tmp_path / "demo" / "explore.html"
    assert str(page) in shown.replace("\n", "")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"))[1])
    assert [run["method"] for run in data["runs"]] == ["softmax", "triplet", "magnet"]
    assert [len(run["moments"]) > 1 for run in data["runs"]] == [False, False, True]


def test_the_demo_without_the_packages_for_pictures_shows_its_table_and_says_how_to_get_them(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("magnet.commands.demo.find_spec", lambda name: None if name == "openTSNE" else name)
    assert main(["demo", "--out", str(tmp_path / "demo"), "--epochs", "1", "--seeds", "1", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert "hidden digits" in shown.out
    assert "no pictures without openTSNE: pip install 'magnet-loss[plots,explore]'" in shown.err
    assert not list((tmp_path / "demo").glob("*.*"))
