"""The page in a real browser."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine

from magnet.report.explorer.build import build_explorer
from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from report.explorer.browser import Page, colourful, start

CENTRE = "const m = magnet.maps[0].moment, p = m.centres.positions; return [0, p[0], p[1]]"
# An example that no centre covers.
EXAMPLE = """
  const view = magnet.maps[0], m = view.moment, f = view.frame();
  const far = (at) => m.centres.sizes.every((_, j) => Math.hypot(
    f.x(m.positions[2 * at]) - f.x(m.centres.positions[2 * j]),
    f.y(m.positions[2 * at + 1]) - f.y(m.centres.positions[2 * j + 1])) > 14);
  const at = m.shown.findIndex((_, at) => far(at));
  return [0, m.positions[2 * at], m.positions[2 * at + 1]]
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    started = start(tmp_path_factory.mktemp("profile"))
    yield started
    started.quit()


def written(folder: Path, *runs: Path) -> Path:
    explorer = build_explorer(
        [Run(run) for run in runs], examples=500, seed=0, say=lambda what: lambda done, total: None
    )
    (folder / "explore.html").write_text(explorer.html(), encoding="utf-8")
    return folder / "explore.html"


@pytest.fixture(scope="module")
def digits_page(browser, digits_magnet, digits_softmax, tmp_path_factory):
    return written(tmp_path_factory.mktemp("digits"), digits_magnet, digits_softmax)


@pytest.fixture(scope="module")
def odd_page(browser, odd_vectors, tmp_path_factory):
    return written(tmp_path_factory.mktemp("odd"), odd_vectors)


@pytest.fixture(scope="module")
def wine_page(browser, wine, tmp_path_factory):
    return written(tmp_path_factory.mktemp("wine"), wine)


@pytest.fixture(scope="module")
def fashion_page(browser, fashion, tmp_path_factory):
    return written(tmp_path_factory.mktemp("fashion"), fashion)


@pytest.fixture
def open_page(browser):
    """Opens a page; when the test is over, the console must be free of errors and nothing may have been fetched."""
    opened: list[Page] = []
    browser.get_log("browser")

    def show(file: Path) -> Page:
        opened.append(Page(browser, file))
        return opened[-1]

    yield show
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    fetched = opened[-1].js("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in fetched if not name.startswith(("data:", "blob:"))] == []


def test_the_error_above_a_map_is_that_of_evaluate(digits_page, open_page, digits_magnet):
    page, found = open_page(digits_page), evaluate(Run(digits_magnet))
    assert f"kNC: error {100 * found['knc']['error']:.1f} % on 540 test examples" in page.text(".map .caption")


def test_points_are_drawn_in_each_map_by_webgl(digits_page, open_page):
    page = open_page(digits_page)
    assert page.js("return magnet.maps.map((view) => view.plot.data[0].type)") == ["scattergl", "scattergl"]
    for name in ("regions", "centres"):
        page.click(f"#{name}")
    for number in (1, 2):
        assert colourful(page.picture(f".map:nth-child({number}) .stage")) > 1000


def test_regions_and_centres_are_drawn_and_can_be_hidden(digits_page, open_page):
    page = open_page(digits_page)
    both = page.picture(".stage")
    page.click("#regions")
    points = page.picture(".stage")
    assert (both != points).any(axis=2).mean() > 0.02
    page.click("#centres")
    assert (page.picture(".stage") != points).any(axis=2).sum() > 200


def test_a_click_on_a_cluster_shows_its_exemplars_and_leads_to_its_impostors(digits_page, open_page):
    page = open_page(digits_page)
    page.point(CENTRE)
    page.until("magnet.state.selection")
    assert page.js("return magnet.state.selection.cluster") == 0
    shown = page.text("#panel")
    for word in ("mode", "training examples", "spread", "σ", "mean loss", "Nearest impostor clusters"):
        assert word in shown
    assert page.count("#panel button.thumb") >= 5
    expected = page.js("return magnet.maps[0].moment.centres.impostors[0]")
    page.click("#panel .item")
    assert page.js("return magnet.state.selection.cluster") == expected


def test_a_click_on_an_example_shows_its_neighbours_and_probabilities_in_each_run(digits_page, open_page):
    page = open_page(digits_page)
    page.point(EXAMPLE)
    page.until("magnet.state.selection")
    assert page.js("return magnet.state.selection.kind") == "example"
    shown = page.text("#panel")
    for word in ("digit ", "Nearest in magnet", "Nearest in softmax", "kNC", "own head", "%"):
        assert word in shown
    assert page.count("#panel button.thumb") == 24
    assert page.js("return magnet.lastClickMs") > 0


def test_a_selection_is_seen_in_both_maps(digits_page, open_page):
    page = open_page(digits_page)
    page.click("#centres")
    drawn = """return magnet.maps.map((view) => {
        const {width, height} = view.over;
        const pixels = view.over.getContext('2d').getImageData(0, 0, width, height).data;
        return pixels.filter((value, i) => i % 4 === 3 && value).length
    })"""
    page.settle()
    assert page.js(drawn) == [0, 0]
    page.js("magnet.select({kind: 'cluster', moment: magnet.data.runs[0].end, cluster: 2})")
    page.settle()
    assert min(page.js(drawn)) > 50
    assert page.count(".stage.dimmed") == 2


def test_the_slider_goes_back_to_a_refresh_that_was_kept(digits_page, open_page):
    page = open_page(digits_page)
    assert page.text("#moment") == "evaluated step of each run"
    assert "last: step 60 of 60" in page.text(".map .caption")
    positions = "return magnet.maps.map((view) => view.plot.data[0].x.length)"
    assert page.js(positions) == [500, 500]
    slider = page.driver.find_element("css selector", "#slider")
    slider.send_keys("\ue012")  # to the left
    page.until("magnet.maps[0].plot.data[0].x.length < 500")
    assert page.text("#moment") == "step 45"
    assert "training part" in page.text(".map .caption")
    slider.send_keys("\ue011")  # to the start
    page.until("magnet.maps[0].moment.step === 0")
    assert page.js(positions)[1] == 500  # softmax kept none and stays where it is
    page.point(CENTRE)
    page.until("magnet.state.selection")
    assert "as it was at step 0" in page.text("#panel")


def test_every_colouring_can_be_chosen(digits_page, open_page):
    from selenium.webdriver.support.ui import Select

    page = open_page(digits_page)
    choice = Select(page.driver.find_element("css selector", "#colour"))
    seen = set()
    for option, word in {
        "cluster": "shade",
        "loss": "more",
        "prediction": "9",
        "correctness": "wrong",
        "split": "test",
    }.items():
        choice.select_by_visible_text(option)
        page.settle()
        assert word in page.text("#legend")
        seen.add(tuple(page.js("return magnet.maps[0].plot.data[0].marker.color")))
    assert len(seen) == 5


def test_the_modes_of_a_class_are_rows_of_exemplars(digits_page, open_page):
    page = open_page(digits_page)
    page.click("#tab-Modes")
    assert page.count(".mode") == 4
    assert page.count(".mode:nth-of-type(3) button.thumb") >= 2
    page.js("const c = document.getElementById('modes-class'); c.value = 7; c.dispatchEvent(new Event('change'))")
    assert page.js("return magnet.state.selection") == {"kind": "class", "label": 7}


def test_suspects_are_listed_by_loss_and_exported(digits_page, open_page):
    page = open_page(digits_page)
    page.click("#tab-Suspects")
    assert page.count(".suspect") == 200
    page.click("#export")
    rows = list(csv.DictReader(io.StringIO(page.js("return magnet.exported"))))
    losses = [float(row["loss"]) for row in rows]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(page.js("return Math.max(...magnet.data.runs[0].loss)"))
    page.click(".suspect")
    assert rows[0]["path"] in page.text("#panel")


def test_search_and_keys(digits_page, open_page):
    page = open_page(digits_page)
    body = page.driver.find_element("css selector", "body")
    body.send_keys("/")
    box = page.driver.switch_to.active_element
    assert box.get_attribute("id") == "search"
    name = page.js(  # of the leftmost example, which has others to its right
        "const m = magnet.data.runs[0].end; let best = 0;"
        "m.shown.forEach((_, at) => { if (m.positions[2 * at] < m.positions[2 * best]) best = at; });"
        "return magnet.data.names[m.shown[best]]"
    )
    box.send_keys(name)
    page.until("!document.getElementById('found').hidden")
    found = page.driver.find_elements("css selector", "#found li")
    next(row for row in found if row.text.split("\n")[0] == name).click()
    page.until("magnet.state.selection?.kind === 'example'")
    before = page.js("return magnet.state.selection.id")
    assert page.js("return magnet.data.names[arguments[0]]", before) == name
    stage = page.driver.find_element("css selector", ".stage")
    stage.send_keys("\ue014")  # to the right
    page.until(f"magnet.state.selection.id !== {before}")
    stage.send_keys("\ue007")  # Enter
    page.until("magnet.state.selection.kind === 'cluster'")
    stage.send_keys("\ue00c")  # Escape
    page.until("magnet.state.selection === null")


def test_dark_and_light(digits_page, open_page):
    page = open_page(digits_page)
    ground = "return getComputedStyle(document.body).backgroundColor"
    before, colours = page.js(ground), page.js("return magnet.maps[0].plot.data[0].marker.color[0]")
    page.click("#theme")
    page.settle()
    assert page.js(ground) != before
    assert page.js("return magnet.maps[0].plot.data[0].marker.color[0]") != colours


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def test_the_colours_of_200_classes_differ_and_stand_out_from_the_ground(odd_page, open_page):
    page = open_page(odd_page)
    for theme, ground in {"light": "#ffffff", "dark": "#14181f"}.items():
        for count in (10, 200):
            colours = page.js("return magnet.palette(arguments[0], arguments[1])", count, theme)
            assert len(set(colours)) == count
            for colour in colours:
                low, high = sorted([luminance(colour), luminance(ground)])
                assert (high + 0.05) / (low + 0.05) > 1.9, (theme, colour)


def test_names_are_text_whatever_they_hold(odd_page, open_page):
    from selenium.common.exceptions import NoAlertPresentException

    page = open_page(odd_page)
    assert "<script>alert(1)</script>" in page.text("#legend")
    page.js("magnet.select({kind: 'class', label: magnet.data.classes.indexOf('<script>alert(1)</script>')}, 'Modes')")
    page.js("magnet.select({kind: 'example', id: 0})")
    assert "<img src=x onerror=alert(" in page.text("#panel")
    assert "<i>feature 5</i>" in page.text("#features")
    page.point(EXAMPLE, act=lambda mouse: None)
    page.until("!document.getElementById('tooltip').hidden")
    box = page.driver.find_element("css selector", "#search")
    box.send_keys("<img")
    assert "92 files" in page.text("#found")
    with pytest.raises(NoAlertPresentException):
        page.driver.switch_to.alert  # noqa: B018
    assert page.count("img") == 0


def test_a_class_without_clusters_attributes_and_odd_names_in_a_csv(odd_page, open_page):
    page = open_page(odd_page)
    label = page.js("return magnet.data.classes.indexOf('only in test')")
    page.js("magnet.select({kind: 'example', id: magnet.data.labels.indexOf(arguments[0])})", label)
    assert "its class has no cluster" in page.text("#panel")
    page.js("magnet.select({kind: 'class', label: arguments[0]}, 'Modes')", label)
    assert "no clusters" in page.text("#panel")
    page.js(
        "const c = document.getElementById('colour'); c.value = 'attribute 0'; c.dispatchEvent(new Event('change'))"
    )
    assert "has it not" in page.text("#legend")
    page.click("#tab-Suspects")
    page.click("#export")
    text = page.js("return magnet.exported")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert {row["label"] for row in rows} == {
        "<script>alert(1)</script>", "'=HYPERLINK(1)", 'a "b", c\u2028', "only in test",
    }  # fmt: skip


def test_a_table_is_shown_with_its_true_values_and_the_names_of_its_features(wine_page, open_page):
    page, table = open_page(wine_page), load_wine()
    number = next(i for i, values in enumerate(table.data) if values[1] == 2.39)  # malic acid
    page.js("magnet.select({kind: 'example', id: magnet.data.names.indexOf(arguments[0])})", str(number))
    rows = page.driver.find_elements("css selector", "#features tr")
    shown = [tuple(cell.text for cell in row.find_elements("css selector", "td")) for row in rows]
    values = [f"{value:g}" for value in table.data[number]]
    assert shown == list(zip(table.feature_names, values, strict=True))
    assert ("malic_acid", "2.39") in shown
    page.point(EXAMPLE, act=lambda mouse: None)
    page.until("!document.getElementById('tooltip').hidden")
    assert "malic_acid" in page.text("#tooltip")


def test_numbers_have_the_digits_that_they_hold(wine_page, open_page):
    page = open_page(wine_page)
    given = np.array([2.39, 0.1, 1065, -3.5e-5, 16777215, 123456789, 0], np.float32)
    expected = ["2.39", "0.1", "1065", "-0.000035", "16777215", "123457000", "0"]
    assert page.js("return arguments[0].map(magnet.exact)", given.tolist()) == expected


def test_photos_are_shown_under_the_mouse_and_close_up(fashion_page, open_page):
    page = open_page(fashion_page)
    assert colourful(page.picture(".stage")) > 1000
    page.point(EXAMPLE, act=lambda mouse: None)
    page.until("!document.getElementById('tooltip').hidden")
    grey = page.picture("#tooltip canvas")
    assert grey.std() > 20  # a picture, not a blank
    page.js("magnet.select(null)")
    page.point(CENTRE)
    page.until("magnet.state.selection")
    assert page.count("#panel button.thumb") >= 5
    assert np.std(page.picture("#panel button.thumb canvas")) > 20
