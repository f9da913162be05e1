"""A page whose pictures and data lie beside it, in a real browser that opens it as a file."""

import shutil

import numpy as np
import pytest

from magnet.report.explorer import looks, page_data
from report.browser import DESKTOP, PHONE, Page
from report.conftest import short, written


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A run on vectors of 100 features with names; the 41st of the first example is unusual."""
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    values = rng.normal(size=(200, 100)).astype(np.float32) + labels[:, None]
    values[0, 40] = 123.25
    file = tmp_path_factory.mktemp("wide") / "wide.npz"
    names = {"name": np.array([f"row {i} é" for i in range(200)]), "feature_names": [f"f{i}" for i in range(100)]}
    np.savez(file, X=values, y=np.array(["a", "b"])[labels], **names)
    return short(file.parent / "run", data=str(file), clusters_per_class=2, steps=5)


@pytest.fixture
def folder(wide, tmp_path, monkeypatch):
    """Its page as a folder of files so small that every array takes several."""
    monkeypatch.setattr(page_data, "SHORT", 100)
    monkeypatch.setattr(page_data, "PART", 4000)
    return written(tmp_path / "folder", wide)


@pytest.mark.parametrize(("size", "theme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_a_table_in_a_folder_is_the_same_page_with_all_its_features(folder, wide, tmp_path, open_page, size, theme):
    data = (
        "const d = magnet.data, m = d.runs[0].end; return [d.names, ...[d.labels, m.positions, m.loss, "
        "m.neighbours.ids, m.neighbours.distances].map((array) => Array.from(array))]"
    )
    alone = written(tmp_path / "alone.html", wide)
    expected = open_page(alone).js(data)
    page = open_page(folder, size, theme)
    assert page.js(data) == expected
    assert expected[0][0].startswith("row ")
    assert len(list(folder.parent.glob("data/*.js"))) > 20
    assert all(file.stat().st_size < 4200 for file in folder.parent.glob("data/*.js"))
    page.js("magnet.select({kind: 'example', id: magnet.data.names.indexOf('row 0 é')})")
    assert page.count("#features tr") == 32
    assert page.text("#features tr").split()[:2] == ["f40", "123.25"]  # what is unusual comes first
    page.js("document.getElementById('more-features').click()")
    assert page.count("#features tr") == 100
    assert page.js("const p = document.getElementById('panel'); return p.scrollWidth <= p.clientWidth")


def test_equal_arrays_lie_beside_a_page_once(wide, tmp_path, open_page, monkeypatch):
    monkeypatch.setattr(page_data, "SHORT", 100)
    one, two = written(tmp_path / "one", wide), written(tmp_path / "two", wide, shutil.copytree(wide, tmp_path / "run"))
    count = {page: len(list(page.parent.glob("data/*.js"))) for page in (one, two)}
    assert count[two] == count[one]  # two runs that know the same
    page = open_page(two)
    assert page.js(
        "const [a, b] = magnet.data.runs; return a.split === b.split && a.end.positions.length === 400"
        " && b.end.positions.length === 400"
    )


def test_only_so_many_features_lie_beside_a_page_as_have_room(wide, tmp_path, open_page, monkeypatch):
    monkeypatch.setattr(looks, "FEATURE_BYTES", 50 * 200 * 4)
    page = open_page(written(tmp_path / "folder", wide))
    assert page.js("return magnet.data.pictures.columns.length") == 50
    page.js("magnet.select({kind: 'example', id: 0})")
    assert "Values 50 of 100, the furthest from its class first" in page.text("#panel")


@pytest.mark.parametrize("how", ["missing", "of another page"])
def test_without_its_own_data_the_page_says_so(folder, browser, how):
    if how == "missing":
        shutil.rmtree(folder.parent / "data")
    else:
        part = folder.parent / "data" / "3.js"
        part.write_text(part.read_text().replace('Parts ??= {})["', 'Parts ??= {})["0'))
    page = Page(browser, folder, ready="document.readyState === 'complete'")
    assert "The data of this page is not beside it" in page.text("body")
    browser.get_log("browser")


def test_a_folder_has_a_large_picture_of_every_example_beside_its_page(photos, tmp_path, open_page):
    file = written(tmp_path / "folder", photos)
    assert file == tmp_path / "folder" / "index.html"
    assert {path.name for path in (tmp_path / "folder" / "pictures").iterdir()} == {"small-0.webp", "large-0.webp"}
    page = open_page(file)
    page.js("magnet.select({kind: 'example', id: 11, run: 0})")
    page.until(
        "magnet.data.pictures.large.loaded?.[0]?.complete && magnet.data.pictures.large.loaded[0].naturalWidth === 1280"
    )
    assert page.js("return magnet.data.pictures.large.ids.length") == 12
