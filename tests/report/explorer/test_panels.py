"""What the panels of the page say, in a real browser: summary, examples, tables, suspects and marks, differences."""

import copy
import csv
import io
import json
import re

import numpy as np
import pytest
from sklearn.datasets import load_wine

from magnet.report.html import page as page_of
from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from report.browser import everywhere
from report.explorer.test_browser import CENTRE, EXAMPLE


def exported(page):
    page.click("#export")
    return list(csv.DictReader(io.StringIO(page.js("return magnet.exported"), newline="")))


@everywhere
def test_the_panels_of_two_runs(digits_page, open_page, digits_magnet, size, theme):
    page = open_page(digits_page, size, theme)
    opens_on_a_summary(page, evaluate(Run(digits_magnet)))
    modes_are_rows_of_exemplars(page)
    a_suspect_stands_between_both_classes(page)
    where_the_runs_differ_is_a_table(page)
    marks_survive_a_reload_and_are_exported(page, lambda: open_page(digits_page, size, theme))


def opens_on_a_summary(page, found):
    """With errors, confusions, suspects and modes, each a click away."""
    shown = page.text("#panel")
    assert page.js("return magnet.state.tab") == "Summary"
    assert "Trained with the method magnet (network mlp, preset auto, seed 0) on digits: " in shown
    assert "1,797 vectors of 10 classes" in shown
    assert "step 60 of 60" in shown
    for rule in ("knc", "knn"):
        assert f"{100 * found[rule]['error']:.1f} %" in page.text("#errors")
    pair = page.driver.find_element("css selector", ".confusion").text
    assert re.fullmatch(r"\d taken for \d\n\d+ of \d+ test examples?", pair)
    for item, kind in {".confusion": "found", ".suspect": "example", ".unusual": "cluster"}.items():
        assert page.count(f"{item} canvas") >= 1
        page.click(item)
        assert page.js("return magnet.state.selection.kind") == kind
        page.click("#tab-Summary")


def modes_are_rows_of_exemplars(page):
    """Of the class that is chosen."""
    page.js("magnet.select({kind: 'class', label: 0}, 'Modes')")
    assert page.count(".mode") == 4
    assert page.count(".mode:nth-of-type(3) button.thumb") >= 2
    page.choose("#modes-class", "7")
    assert page.js("return magnet.state.selection") == {"kind": "class", "label": 7}


def a_suspect_stands_between_both_classes(page):
    """Spelled out, judged by votes that it had no part in, and beside the nearest of both classes."""
    page.click("#tab-Suspects")
    assert re.match(r"labelled \d\nlooks like \d\n", page.text(".suspect"))
    assert "by their features as given" in page.text("#panel")
    page.click(".suspect")
    chosen = page.js("return magnet.state.selection.id")
    label, taken, trained, looks_like, loss = page.js(
        "const run = magnet.data.runs[0], m = run.end, id = arguments[0]; return [magnet.data.labels[id], "
        "m.prediction[m.place[id]], run.split[id] === 0, run.heldOut.suggestion[id], run.heldOut.loss[id]]",
        chosen,
    )
    if taken != label:
        assert f"labelled {label}, taken for {taken}" in page.text("#panel")
    if trained:
        assert page.text(".held-out") == f"left out of the votes: looks like {looks_like}, loss {loss:.2f}"
    sides = page.driver.find_elements("css selector", "#sides > div")
    assert [f"Most like it in {c}" in side.text for side, c in zip(sides, (label, looks_like), strict=True)] == [
        True,
        True,
    ]
    for side, c in zip(sides, (label, looks_like), strict=True):
        names = [thumb.get_attribute("aria-label") for thumb in side.find_elements("css selector", "button.thumb")]
        assert len(names) == 4
        assert all(name.startswith(f"{c}, ") for name in names)
    page.click("#tab-Suspects")
    page.choose("#panel select[aria-label=Order]", "loss")
    assert re.match(r"labelled \d\ntaken for \d\n", page.text(".suspect"))
    assert "by kNC. Training examples take part in what judges them." in page.text("#panel")
    page.choose("#panel select[aria-label=Order]", "doubt")


def where_the_runs_differ_is_a_table(page):
    """That leads to the examples."""
    page.click("#tab-Compare")
    counts = [int(n) for n in re.findall(r"\d+", page.text(".agreement tr:nth-child(2)"))]
    right = page.js(
        "const d = magnet.data; return d.runs.map((run) => Array.from({length: d.count}, (_, id) => id)"
        ".filter((id) => run.split[id] === 2).map((id) => run.end.prediction[run.end.place[id]] === d.labels[id]))"
    )
    a, b = np.array(right)
    assert counts == [(a & b).sum(), (a & ~b).sum(), (~a & b).sum(), (~a & ~b).sum()]
    page.js("document.querySelector('.agreement tr:nth-child(2) td:nth-child(3) button').click()")
    assert "right in magnet, wrong in softmax" in page.text("#panel")
    assert page.js("return magnet.state.selection.ids.length") == (a & ~b).sum()


def marks_survive_a_reload_and_are_exported(page, reload):
    """With the corrected label."""
    page.click("#tab-Suspects")
    assert page.count(".suspect") == 50
    page.js("document.getElementById('more').click()")
    assert page.count(".suspect") == 200
    rows = exported(page)
    losses = [float(row["loss"]) for row in rows]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(page.js("return Math.max(...magnet.data.runs[0].heldOut.loss)"))
    page.click(".suspect")
    page.click("#marks button:nth-of-type(2)")
    page.choose("#marks select", "5" if rows[0]["label"] != "5" else "6")
    page.js("magnet.select({kind: 'example', id: magnet.data.names.indexOf(arguments[0]), run: 0})", rows[-1]["path"])
    page.click("#marks button:nth-of-type(1)")
    page = reload()
    page.click("#tab-Suspects")
    after = {row["path"]: row for row in exported(page)}
    corrected = "5" if rows[0]["label"] != "5" else "6"
    assert (after[rows[0]["path"]]["mark"], after[rows[0]["path"]]["corrected_label"]) == ("wrong", corrected)
    assert (after[rows[-1]["path"]]["mark"], after[rows[-1]["path"]]["corrected_label"]) == ("right", "")
    assert sum(bool(row["mark"]) for row in after.values()) == 2
    page.choose("#panel select[aria-label=Marks]", "wrong")
    assert page.count(".suspect") == 1
    assert f"marked wrong, should be {corrected}" in page.text(".suspect")


@everywhere
def test_two_or_three_maps_use_the_height_of_the_window(digits_page, open_page, tmp_path, size, theme):
    text = digits_page.read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    data["runs"].append(copy.deepcopy(data["runs"][1]) | {"name": "third"})
    three = tmp_path / "three.html"
    three.write_text(page_of("magnet.report.explorer", "three", data), encoding="utf-8")
    used = (
        "const box = document.getElementById('maps').getBoundingClientRect(), maps = "
        "[...document.querySelectorAll('.map')].filter((m) => m.checkVisibility())"
        ".map((m) => m.getBoundingClientRect()); return [Math.max(...maps.map((m) => m.bottom)) - "
        "Math.min(...maps.map((m) => m.top)),"
        "box.height, Math.min(...maps.map((m) => Math.min(m.width, m.height)))]"
    )
    for file in (digits_page, three):
        page = open_page(file, size, theme)
        page.show_map()
        tall, height, smallest = page.js(used)
        assert tall == pytest.approx(height, abs=2)
        assert smallest > 300
    assert page.count(".differences tr") == 4  # beside three maps there is room for the table
    assert page.js("return document.querySelector('.differences').checkVisibility()") is not page.phone
    page.click("#tab-Compare")
    assert page.count("#panel .agreement tr") == 4


@everywhere
def test_a_table(wine_page, open_page, size, theme):
    page = open_page(wine_page, size, theme)
    points_stay_points_until_one_zooms_in(page)
    page.afresh()
    names_keep_clear_of_the_centres(page)
    features_are_shown_by_name_with_true_values(page)
    a_cluster_says_which_features_set_it_apart(page)
    numbers_have_the_digits_that_they_hold(page)


def names_keep_clear_of_the_centres(page):
    """Where there is room."""
    covered = page.js(
        "const v = magnet.maps[0], f = v.frame(), p = v.moment.centres.positions;"
        "return Array.from(v.moment.centres.labels).filter((_, j) => v.names.some((n) => {"
        "const x = f.x(p[2 * j]), y = f.y(p[2 * j + 1]);"
        "return x > n.left && x < n.left + n.width && y > n.top && y < n.top + n.height })).length"
    )
    assert page.js("return magnet.maps[0].names.length") == 3
    assert covered == 0


def features_are_shown_by_name_with_true_values(page):
    """And how far they are from cluster and class."""
    table = load_wine()
    number = next(i for i, values in enumerate(table.data) if values[1] == 2.39)  # malic acid
    page.js("magnet.select({kind: 'example', id: magnet.data.names.indexOf(arguments[0])})", str(number))
    rows = page.driver.find_elements("css selector", "#features tr")
    shown = [
        tuple(cell.get_property("textContent") for cell in row.find_elements("css selector", "td")[:2]) for row in rows
    ]
    values = [f"{value:g}" for value in table.data[number]]
    assert shown == list(zip(table.feature_names, values, strict=True))
    assert ("malic_acid", "2.39") in shown
    bars = rows[1].find_elements("css selector", ".deviation")
    kin = table.data[table.target == table.target[number], 1]
    expected = (2.39 - kin.mean()) / table.data[:, 1].std()
    assert bars[1].get_attribute("title") == f"{'−' if expected < 0 else '+'}{abs(expected):.1f} from its class"
    if not page.phone:
        page.settle()
        page.point(EXAMPLE, act=lambda mouse: None)
        page.until("!document.getElementById('tooltip').hidden")
        assert "malic_acid" in page.text("#tooltip")


def a_cluster_says_which_features_set_it_apart(page):
    """From the rest of its class."""
    page.js("magnet.select({kind: 'cluster', moment: magnet.data.runs[0].end, cluster: 0})")
    rows = page.driver.find_elements("css selector", "#apart tr")
    assert len(rows) == 6
    members, kin = page.js(
        "const m = magnet.data.runs[0].end, mine = m.members[0]; return [mine, magnet.data.byClass[m.centres.labels[0]]"
        ".filter((id) => !mine.includes(id))].map((ids) => ids.map((id) => Number(magnet.data.names[id])))"
    )
    table = load_wine()
    apart = (table.data[members].mean(axis=0) - table.data[kin].mean(axis=0)) / table.data.std(axis=0)
    assert (
        rows[0].find_element("css selector", "td").get_property("textContent")
        == table.feature_names[np.abs(apart).argmax()]
    )


def points_stay_points_until_one_zooms_in(page):
    """Of a table, whose bars can be read close up only."""
    page.show_map()
    for name in ("names", "regions", "centres"):
        page.click(f"#{name}")
    drawn = (
        "const {width, height} = magnet.maps[0].over; const pixels = magnet.maps[0].over.getContext('2d')"
        ".getImageData(0, 0, width, height).data; return pixels.filter((value, i) => i % 4 === 3 && value).length"
    )
    page.settle()
    assert page.js(drawn) == 0
    page.js(
        "magnet.maps[0].camera.middle = Array.from(magnet.maps[0].moment.positions.slice(0, 2)); magnet.maps[0].zoom(8)"
    )
    page.settle()
    assert page.js(drawn) > 1000


def numbers_have_the_digits_that_they_hold(page):
    """And none made up."""
    given = np.array([2.39, 0.1, 1065, -3.5e-5, 16777215, 123456789, 0], np.float32)
    expected = ["2.39", "0.1", "1065", "-0.000035", "16777215", "123457000", "0"]
    assert page.js("return arguments[0].map(magnet.exact)", given.tolist()) == expected


def test_a_class_without_clusters_attributes_and_odd_names_in_a_csv(odd_page, open_page):
    page = open_page(odd_page)
    label = page.js("return magnet.data.classes.indexOf('only in test')")
    page.js("magnet.select({kind: 'example', id: magnet.data.labels.indexOf(arguments[0])})", label)
    assert "its class has no cluster" in page.text("#panel")
    page.js("magnet.select({kind: 'class', label: arguments[0]}, 'Modes')", label)
    assert "no clusters" in page.text("#panel")
    page.choose("#colour", "attribute 0")
    assert "has it not" in page.text("#legend")
    page.click("#tab-Suspects")
    rows = exported(page)
    assert {row["label"] for row in rows} == {
        "<script>alert(1)</script>", "'=HYPERLINK(1)", 'a "b", c\u2028', "only in test",
    }  # fmt: skip


@everywhere
def test_a_photo_is_seen_in_the_panel_and_large_with_the_way_to_the_original(
    photo_page, open_page, photos, size, theme
):
    page = open_page(photo_page, size, theme)
    page.settle()
    page.js("magnet.select({kind: 'example', id: 0, run: 0})")
    name, label = page.js("return [magnet.data.names[0], magnet.data.classes[magnet.data.labels[0]]]")
    drawn = (
        "const c = document.querySelector(arguments[0]); return "
        "Array.from(c.getContext('2d').getImageData(c.width / 2, c.height / 2, 1, 1).data)"
    )
    page.until("document.querySelector('#enlarge canvas')")
    red, _, blue, _ = page.js(drawn, "#enlarge canvas")
    assert (red > blue) == (label == "red")
    assert page.js("return document.querySelector('#enlarge canvas').clientWidth") == 160
    page.click("#enlarge")
    assert page.js("return document.getElementById('viewer').open")
    assert name in page.text("#viewer")
    assert page.js("return document.querySelector('#viewer canvas').clientWidth") > (300 if page.phone else 400)
    address = page.js("return decodeURIComponent(document.querySelector('#viewer .original').href)")
    assert address == f"file://{photos.parent / 'photos' / name}"
    page.click("#viewer button")
    assert not page.js("return document.getElementById('viewer').open")


def test_small_photos_are_shown_under_the_mouse_and_close_up(fashion_page, open_page):
    page = open_page(fashion_page)
    page.click("#names")
    page.settle()
    page.point(EXAMPLE, act=lambda mouse: None)
    page.until("!document.getElementById('tooltip').hidden")
    page.settle()
    grey = page.picture("#tooltip canvas")
    assert grey.std() > 20  # a picture, not a blank
    page.js("magnet.select(null)")
    page.point(CENTRE)
    page.until("magnet.state.selection")
    assert page.count("#panel button.thumb") >= 5
    assert np.std(page.picture("#panel button.thumb canvas")) > 20
