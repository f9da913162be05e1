import json
import re
import webbrowser
from pathlib import Path

import numpy as np
import pytest

from magnet.commands import explore
from magnet.report.explorer import looks
from magnet.training.config import TrainConfig
from magnet.training.train import train


def data_of(page: Path) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    assert found
    return json.loads(found[1])


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The addresses that a browser was asked to open; no browser is started."""
    seen: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: seen.append(url) or True)
    return seen


def test_the_page_is_written_and_opened(photo_run, tmp_path, magnet, opened):
    out = tmp_path / "new folder" / "page.html"
    said = magnet("explore", photo_run, "--out", out, "--table", tmp_path / "t.csv")
    assert "shows all 24 examples" in said
    assert opened == [out.resolve().as_uri()]
    data = data_of(out)
    assert sorted(data["classes"]) == ["blue", "grün", "red [bold]fox"]
    assert len(data["names"]) == data["total"] == 24
    assert len((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()) == 25


def test_a_large_set_is_sampled_and_the_page_knows(digits_run, tmp_path, magnet, opened):
    said = magnet("explore", digits_run, "--out", tmp_path / "page.html", "--examples", "200", "--no-open")
    assert "shows 200 of 1797 examples" in said
    assert not opened
    data = data_of(tmp_path / "page.html")
    assert (len(data["names"]), data["total"]) == (200, 1797)
    # The error is still that of the whole test part.
    error = magnet("evaluate", digits_run, "--json")["knc"]["error"]
    shown = data["runs"][0]["test"]
    own = next(rule for rule in shown["rules"] if rule["own"])
    assert (own["error"], shown["n"], shown["images"]) == (f"{100 * error:.1f} %", 540, False)


def test_without_a_browser_the_file_is_still_there(digits_run, tmp_path, magnet, monkeypatch):
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    said = magnet("explore", digits_run, "--out", tmp_path / "page.html", "--examples", "50")
    assert "open the file yourself" in said
    assert (tmp_path / "page.html").is_file()


def test_a_folder_is_offered_where_one_file_has_no_room_for_large_pictures(photo_run, tmp_path, magnet, monkeypatch):
    page = tmp_path / "page.html"
    assert "writes a folder" not in magnet("explore", photo_run, "--out", page, "--no-open")
    monkeypatch.setattr(looks, "LARGE_BYTES", 0)
    monkeypatch.setattr(explore, "MUCH", 10_000)
    said = magnet("explore", photo_run, "--out", page, "--no-open")
    assert "24 of them have a small picture only: --out page writes a folder" in said
    assert "much for one file: --out page writes a folder of smaller files, --examples N shows fewer" in said


def test_a_name_without_an_ending_is_a_folder_with_pictures_beside_its_page(photo_run, tmp_path, magnet, opened):
    said = magnet("explore", photo_run, "--out", tmp_path / "all")
    page = tmp_path / "all" / "index.html"
    assert str(page) in said
    assert opened == [page.resolve().as_uri()]
    assert data_of(page)["pictures"]["sheets"] == ["pictures/small-0.webp"]
    assert (tmp_path / "all" / "pictures" / "small-0.webp").is_file()


def test_a_table_of_many_features_is_offered_a_folder_that_has_them_all(tmp_path, magnet):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "wide.npz", X=rng.normal(size=(60, 40)), y=np.arange(60) % 2)
    settings = {"steps": 2, "evaluate": False, "quiet": True, "out": tmp_path / "run"}
    run = train(TrainConfig(data=str(tmp_path / "wide.npz"), **settings), silent=True)
    said = magnet("explore", run, "--out", tmp_path / "page.html", "--no-open")
    assert "32 of 40 features are on the page: --out page writes a folder, which has them all" in said
    said = magnet("explore", run, "--out", tmp_path / "page", "--no-open")
    assert "writes a folder" not in said
    assert len(data_of(tmp_path / "page" / "index.html")["pictures"]["columns"]) == 40


def test_runs_on_different_data_are_refused(digits_run, photo_run, tmp_path, complaint):
    out = tmp_path / "page.html"
    assert "different data" in complaint("explore", digits_run, photo_run, "--out", out)
    X = np.random.default_rng(0).normal(size=(40, 3))
    runs = []
    for name, y in {"a": np.arange(40) % 2, "b": np.arange(40) // 20}.items():
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "set.npz", X=X, y=y)
        settings = {"steps": 2, "evaluate": False, "quiet": True, "out": tmp_path / name / "run"}
        runs.append(train(TrainConfig(data=str(tmp_path / name / "set.npz"), **settings), silent=True))
    assert "their labels" in complaint("explore", *runs, "--out", out)
    assert not out.exists()


def test_bad_input(digits_run, tmp_path, complaint):
    out = tmp_path / "page.html"
    assert "one to three" in complaint("explore", "--out", out)
    assert "no run at" in complaint("explore", tmp_path / "no", "--out", out)
    assert "ends in .html" in complaint("explore", digits_run, "--out", tmp_path / "page.txt")
    assert "one, two or three" in complaint("explore", *[digits_run] * 4, "--out", out)
    assert "--examples" in complaint("explore", digits_run, "--out", out, "--examples", "3")
    assert ".csv or .parquet" in complaint("explore", digits_run, "--out", out, "--table", tmp_path / "t.txt")
    assert not out.exists()
