"""The map of the page in a real browser: points, names, colours, time, search, themes."""

import numpy as np
import pytest

from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from report.browser import DESKTOP, PHONE, colourful

CENTRE = "const m = magnet.maps[0].moment, p = m.centres.positions; return [0, p[0], p[1]]"
# An example that no centre, no name and no button covers.
EXAMPLE = """
  const view = magnet.maps[0], m = view.moment, f = view.frame();
  const free = (at) => {
    const [x, y] = [f.x(m.positions[2 * at]), f.y(m.positions[2 * at + 1])];
    return x < f.width - 60 && m.centres.sizes.every((_, j) => Math.hypot(
      x - f.x(m.centres.positions[2 * j]), y - f.y(m.centres.positions[2 * j + 1])) > 14)
      && view.names.every((n) => x < n.left - 4 || x > n.left + n.width + 4 || y < n.top - 4 || y > n.top + 24);
  };
  const at = m.shown.findIndex((_, at) => free(at));
  return [0, m.positions[2 * at], m.positions[2 * at + 1]]
"""
LEFT, RIGHT, HOME, ENTER, ESCAPE = "\ue012", "\ue014", "\ue011", "\ue007", "\ue00c"


def overlapping(names):
    return [
        (a, b)
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        if a["left"] < b["left"] + b["width"] and b["left"] < a["left"] + a["width"] and abs(a["top"] - b["top"]) < 18
    ]


def test_the_error_above_a_map_is_that_of_evaluate(digits_page, open_page, digits_magnet):
    page, found = open_page(digits_page), evaluate(Run(digits_magnet))
    assert f"kNC: error {100 * found['knc']['error']:.1f} % on 540 test examples" in page.text(".map .caption")


def test_points_are_drawn_in_each_map_by_webgl(digits_page, open_page):
    page = open_page(digits_page)
    assert page.js("return magnet.maps.map((view) => Boolean(view.points.gl))") == [True, True]
    for name in ("names", "regions", "centres"):
        page.click(f"#{name}")
    for number in (1, 2):
        assert colourful(page.picture(f".map:nth-child({number}) .stage")) > 1000


def test_regions_centres_and_names_are_drawn_and_can_be_hidden(digits_page, open_page):
    page = open_page(digits_page)
    before = page.picture(".stage")
    for name, least in {"regions": 20_000, "centres": 200, "names": 100}.items():
        page.click(f"#{name}")
        after = page.picture(".stage")
        assert (after != before).any(axis=2).sum() > least, name
        before = after


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_every_class_in_view_is_named_at_every_zoom_and_no_name_lies_over_another(digits_page, open_page, size):
    page = open_page(digits_page, size)
    page.settle()
    names = "return magnet.maps[0].names.map(({label, left, top, width}) => ({label, left, top, width}))"
    assert sorted(name["label"] for name in page.js(names)) == list(range(10))
    for factor in (2, 2, 2.5):
        assert not overlapping(page.js(names))
        page.js(
            "const v = magnet.maps[0], m = v.moment; v.camera.middle = [m.positions[0], m.positions[1]]; "
            "v.zoom(arguments[0])",
            factor,
        )
        page.settle()
        seen = page.js(
            "const v = magnet.maps[0], m = v.moment, f = v.frame(); return [...new "
            "Set(Array.from(m.shown).filter((_, at) => {"
            "const x = f.x(m.positions[2 * at]), y = f.y(m.positions[2 * at + 1]);"
            "return x > 30 && y > 30 && x < f.width - 30 && y < f.height - 30 }).map((id) => magnet.data.labels[id]))]"
        )
        assert set(seen) <= {name["label"] for name in page.js(names)}


def test_names_keep_clear_of_the_centres_where_there_is_room(wine_page, open_page):
    page = open_page(wine_page)
    page.settle()
    covered = page.js(
        "const v = magnet.maps[0], f = v.frame(), p = v.moment.centres.positions;"
        "return Array.from(v.moment.centres.labels).filter((_, j) => v.names.some((n) => {"
        "const x = f.x(p[2 * j]), y = f.y(p[2 * j + 1]);"
        "return x > n.left && x < n.left + n.width && y > n.top && y < n.top + n.height })).length"
    )
    assert page.js("return magnet.maps[0].names.length") == 3
    assert covered == 0


def test_a_name_on_the_map_leads_to_its_class_which_stands_out(digits_page, open_page):
    page = open_page(digits_page)
    page.settle()
    name = (
        "const v = magnet.maps[0], n = v.names[0], f = v.frame(); return [0, f.bounds[0] + (n.left + n.width "
        "/ 2) / f.scale, f.bounds[3] - (n.top + 9) / f.scale]"
    )
    label = page.js("return magnet.maps[0].names[0].label")
    page.point(name, act=lambda mouse: None)
    page.until("magnet.state.preview")
    assert page.js("return magnet.state.preview.label") == label
    page.point(name)
    page.until("magnet.state.selection")
    assert page.js("return magnet.state.selection") == {"kind": "class", "label": label}
    strong = page.js(
        "const v = magnet.maps[1]; return Array.from(v.moment.shown).filter((_, at) => v.points.values.strong[at])"
    )
    assert sorted(strong) == page.js("return magnet.data.byClass[arguments[0]]", label)


def test_a_click_on_a_cluster_shows_its_exemplars_and_leads_to_its_impostors(digits_page, open_page):
    page = open_page(digits_page)
    page.click("#names")  # one may lie over the centre
    page.settle()
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
    page.settle()
    page.point(EXAMPLE)
    page.until("magnet.state.selection")
    assert page.js("return magnet.state.selection.kind") == "example"
    shown = page.text("#panel")
    for word in ("digit ", "Nearest in magnet", "Nearest in softmax", "kNC", "own head", "%"):
        assert word in shown
    assert page.js("return magnet.lastClickMs") > 0
    strong = page.js("return magnet.maps.map((view) => view.points.values.strong.reduce((a, b) => a + b))")
    assert strong == [13, 13]  # it and its neighbours, in both maps


def test_close_up_pictures_do_not_cover_each_other_and_a_click_anywhere_on_one_chooses_it(digits_page, open_page):
    page = open_page(digits_page)
    page.click("#names")
    page.click("#centres")
    page.js("const v = magnet.maps[0]; v.camera.middle = Array.from(v.moment.centres.positions.slice(0, 2)); v.zoom(6)")
    page.settle()
    boxes = page.js("return magnet.maps[0].pictures")
    assert len(boxes) >= 5
    side = boxes[0]["height"]
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            shared = side - abs(a["left"] - b["left"]), side - abs(a["top"] - b["top"])
            assert min(shared) <= 0.3 * side + 1e-6
    last = boxes[-1]
    corner = (
        "const v = magnet.maps[0], f = v.frame(), b = v.pictures.at(-1);"
        "return [0, f.bounds[0] + (b.left + 4) / f.scale, f.bounds[3] - (b.top + 4) / f.scale]"
    )
    page.js(
        "magnet.maps[0].pan(arguments[0], arguments[1])",
        *page.js(
            "const f = magnet.maps[0].frame(), b = magnet.maps[0].pictures.at(-1);"
            "return [f.width / 2 - b.left - b.width / 2, f.height / 2 - b.top - b.height / 2]"
        ),
    )
    page.settle()
    last = page.js("return magnet.maps[0].pictures.at(-1).id")
    page.point(corner)
    page.until("magnet.state.selection")
    assert page.js("return magnet.state.selection.id") == last


def test_the_map_is_dragged_and_zoomed_where_the_mouse_is(digits_page, open_page):
    page = open_page(digits_page)
    page.point(
        "return [0, ...magnet.maps[0].camera.middle]",
        act=lambda mouse: mouse.click_and_hold().move_by_offset(60, 30).release(),
    )
    moved = page.js(
        "const v = magnet.maps[0], w = v.whole(); return [w.middle[0] - v.camera.middle[0], "
        "v.camera.middle[1] - w.middle[1]].map((d) => d * v.camera.scale)"
    )
    assert np.allclose(moved, [60, 30], atol=1)
    assert page.js("return magnet.state.selection") is None  # a drag is no click
    still = page.js(
        "const v = magnet.maps[0], at = [100, 80], f = v.frame(), x = f.bounds[0] + at[0] / f.scale;"
        "v.stage.dispatchEvent(new WheelEvent('wheel', {deltaY: -400, clientX: at[0] + "
        "v.stage.getBoundingClientRect().left,"
        "clientY: at[1] + v.stage.getBoundingClientRect().top, bubbles: true, cancelable: true}));"
        "return [v.frame().zoom, v.frame().x(x)]"
    )
    assert still[0] > 1.5
    assert still[1] == pytest.approx(100, abs=0.5)
    page.click(".zooms button:last-child")
    assert page.js("return magnet.maps[0].frame().zoom") == pytest.approx(1)


def test_with_the_slider_moved_map_and_panel_speak_of_the_same_moment(digits_page, open_page):
    page = open_page(digits_page)
    assert page.text("#moment") == "evaluated step of each run"
    assert page.js("return getComputedStyle(document.getElementById('evaluated')).left") != "auto"
    assert "last: step 60 of 60" in page.text(".map .caption")
    counts = "return magnet.maps.map((view) => view.moment.shown.length)"
    assert page.js(counts) == [500, 500]
    page.js("const m = magnet.data.runs[0].end; magnet.select({kind: 'cluster', moment: m, cluster: 3})")
    slider = page.driver.find_element("css selector", "#slider")
    slider.send_keys(LEFT)
    page.until("magnet.maps[0].moment.step === 45")
    assert page.text("#moment") == "step 45 of 60"
    assert "step 45 of 60 · training part" in page.text(".map .caption")
    assert "as it was at step 45 of 60" in page.text("#panel")
    assert page.js("return magnet.state.selection.moment === magnet.maps[0].moment")
    for tab in ("Summary", "Suspects", "Modes"):
        page.click(f"#tab-{tab}")
        assert "As it was at step 45 of 60." in page.text("#panel"), tab
    trained, other = page.js(
        "const m = magnet.maps[0].moment; return [m.shown[0], magnet.data.runs[0].end.shown.find((id) => "
        "m.place[id] < 0)]"
    )
    page.js("magnet.select({kind: 'example', id: arguments[0], run: 0})", trained)
    assert "As it was at step 45 of 60." in page.text("#panel")
    page.js("magnet.select({kind: 'example', id: arguments[0], run: 0})", other)
    assert "holds the training part only: this is step 60 of 60, evaluated" in page.text("#panel")
    slider.send_keys(HOME)
    page.until("magnet.maps[0].moment.step === 0")
    assert page.js(counts)[1] == 500  # softmax kept none and stays where it is


def test_every_colouring_can_be_chosen_and_has_a_legend(digits_page, open_page):
    page = open_page(digits_page)
    seen = set()
    for way, word in {
        "cluster": "shade",
        "loss": "more",
        "prediction": "9",
        "correct": "wrong",
        "split": "test",
    }.items():
        page.choose("#colour", way)
        page.settle()
        assert word in page.text("#legend")
        seen.add(tuple(page.js("return Array.from(magnet.maps[0].points.values.colour)")))
    assert len(seen) == 5
    page.choose("#colour", "cluster")
    shades = page.js(
        "return [...document.querySelectorAll('.class-key:first-child .shades i')].map((i) => i.style.background)"
    )
    drawn = page.js(
        "const v = magnet.maps[0], c = v.points.values.colour; return [...new Set(magnet.data.byClass[0].map((id) => {"
        "const at = v.moment.place[id]; return `rgb(${c[3 * at]}, ${c[3 * at + 1]}, ${c[3 * at + 2]})` }))]"
    )
    assert set(drawn) == set(shades)


def test_search_and_keys(digits_page, open_page):
    page = open_page(digits_page)
    page.driver.find_element("css selector", "body").send_keys("/")
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
    assert name in page.js("return document.getElementById('status').textContent")
    stage = page.driver.find_element("css selector", ".stage")
    stage.send_keys(RIGHT)
    page.until(f"magnet.state.selection.id !== {before}")
    stage.send_keys(ENTER)
    page.until("magnet.state.selection.kind === 'cluster'")
    stage.send_keys(ESCAPE)
    page.until("magnet.state.selection === null")


def test_dark_and_light(digits_page, open_page):
    page = open_page(digits_page, theme="dark")
    ground = "return getComputedStyle(document.body).backgroundColor"
    before, colours = page.js(ground), page.js("return Array.from(magnet.maps[0].points.values.colour.slice(0, 3))")
    assert before == "rgb(20, 24, 31)"
    page.click("#theme")
    page.settle()
    assert page.js(ground) == "rgb(255, 255, 255)"
    assert page.js("return Array.from(magnet.maps[0].points.values.colour.slice(0, 3))") != colours


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return float(np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722])


def test_the_colours_of_200_classes_differ_and_stand_out_from_the_ground(odd_page, open_page):
    page = open_page(odd_page)
    for theme, ground in {"light": "#ffffff", "dark": "#14181f"}.items():
        for count in (10, 16, 200):
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
    page.settle()
    page.point(EXAMPLE, act=lambda mouse: None)
    page.until("!document.getElementById('tooltip').hidden")
    box = page.driver.find_element("css selector", "#search")
    box.send_keys("<img")
    assert "92 files" in page.text("#found")
    with pytest.raises(NoAlertPresentException):
        page.driver.switch_to.alert  # noqa: B018
    assert page.count("img") == 0
