"""The map of the page in a real browser: points, names, colours, time, search, themes."""

import numpy as np
import pytest

from magnet.runs.evaluate import evaluate
from magnet.runs.run import Run
from report.browser import everywhere

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


# Pixels that are drawn of the regions, the points, and what lies over them, on each map that is seen.
DRAWN = """
  const count = (pixels) => { let n = 0; for (let i = 3; i < pixels.length; i += 4) n += pixels[i] > 0; return n; };
  const flat = (c) => count(c.getContext('2d').getImageData(0, 0, c.width, c.height).data);
  return magnet.maps.filter((view) => view.stage.clientWidth).map((view) => {
    view.drawNow();
    const {gl, canvas: {width, height}} = view.points, pixels = new Uint8Array(4 * width * height);
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
    return [flat(view.under), count(pixels), flat(view.over)];
  })"""
NAMES = "return magnet.maps[0].names.map(({label, left, top, width}) => ({label, left, top, width}))"
# The classes of which so many examples are in view that they are named, with one of them well inside.
TO_BE_NAMED = """
  const v = magnet.maps[0], m = v.moment, f = v.frame(), labels = magnet.data.labels;
  const within = (room) => Array.from(m.shown).filter((_, at) => {
    const x = f.x(m.positions[2 * at]), y = f.y(m.positions[2 * at + 1]);
    return x > room && y > room && x < f.width - room && y < f.height - room }).map((id) => labels[id]);
  const all = within(0), least = all.length > 60 ? Math.max(2, 0.02 * all.length) : 1;
  return [...new Set(within(30))].filter((label) => all.filter((one) => one === label).length >= least)"""


@everywhere
def test_the_map_of_two_runs_by_mouse_or_finger_and_by_keys(digits_page, open_page, digits_magnet, size, theme):
    page = open_page(digits_page, size, theme)
    page.show_map()
    found = evaluate(Run(digits_magnet))
    assert f"kNC: error {100 * found['knc']['error']:.1f} % on 540 test examples" in page.text(".map .caption")
    for look in (
        layers, names_at_every_zoom, a_name_leads_to_its_class, a_cluster, an_example, pictures_close_up,
        drag_and_zoom, colourings, time, search_and_keys, other_theme,
    ):  # fmt: skip
        page.afresh()
        look(page)


def layers(page):
    """Points, regions, centres and names are drawn, and the latter can be hidden."""
    assert page.js("return magnet.maps.map((view) => Boolean(view.points.gl))") == [True, True]
    drawn = np.array(page.js(DRAWN))
    assert len(drawn) == (1 if page.phone else 2)
    assert (drawn > [10_000, 1000, 500]).all()
    page.click("#regions")
    assert (np.array(page.js(DRAWN))[:, 0] == 0).all()
    page.click("#centres")
    names = np.array(page.js(DRAWN))[:, 2]
    assert (names < drawn[:, 2]).all()
    page.click("#names")
    assert (np.array(page.js(DRAWN))[:, 2] == 0).all()
    assert (np.array(page.js(DRAWN))[:, 1] == drawn[:, 1]).all()


def names_at_every_zoom(page):
    """Every class in view is named, and no name lies over another."""
    assert sorted(name["label"] for name in page.js(NAMES)) == list(range(10))
    for factor in (2, 2, 2.5):
        assert not overlapping(page.js(NAMES))
        page.js(
            "const v = magnet.maps[0], m = v.moment; v.camera.middle = [m.positions[0], m.positions[1]]; "
            "v.zoom(arguments[0])",
            factor,
        )
        page.settle()
        assert set(page.js(TO_BE_NAMED)) <= {name["label"] for name in page.js(NAMES)}


def a_name_leads_to_its_class(page):
    """Which stands out, in all maps."""
    name = (
        "const v = magnet.maps[0], n = v.names[0], f = v.frame(); return [0, f.bounds[0] + (n.left + n.width "
        "/ 2) / f.scale, f.bounds[3] - (n.top + 9) / f.scale]"
    )
    label = page.js("return magnet.maps[0].names[0].label")
    if not page.phone:
        page.point(name, act=lambda mouse: None)
        page.until("magnet.state.preview")
        assert page.js("return magnet.state.preview.label") == label
    page.choose_at(name)
    page.until("magnet.state.selection")
    assert page.js("return magnet.state.selection") == {"kind": "class", "label": label}
    strong = page.js(
        "const v = magnet.maps[1]; return Array.from(v.moment.shown).filter((_, at) => v.points.values.strong[at])"
    )
    assert sorted(strong) == page.js("return magnet.data.byClass[arguments[0]]", label)


def a_cluster(page):
    """Shows its exemplars and leads to its impostors."""
    page.click("#names")  # one may lie over the centre
    page.settle()
    page.choose_at(CENTRE)
    page.until("magnet.state.selection")
    assert page.js("return magnet.state.selection.cluster") == 0
    shown = page.text("#panel")
    for word in ("mode", "training examples", "spread", "σ", "mean loss", "Nearest impostor clusters"):
        assert word in shown
    assert page.count("#panel button.thumb") >= 5
    expected = page.js("return magnet.maps[0].moment.centres.impostors[0]")
    page.click("#panel .item")
    assert page.js("return magnet.state.selection.cluster") == expected


def an_example(page):
    """Shows its neighbours and probabilities in each run."""
    page.choose_at(EXAMPLE)
    page.until("magnet.state.selection")
    assert page.js("return magnet.state.selection.kind") == "example"
    shown = page.text("#panel")
    for word in ("digit ", "Nearest in magnet", "Nearest in softmax", "kNC", "own head", "%"):
        assert word in shown
    assert page.js("return magnet.lastClickMs") > 0
    strong = page.js("return magnet.maps.map((view) => view.points.values.strong.reduce((a, b) => a + b))")
    assert strong == [13, 13]  # it and its neighbours, in both maps


def pictures_close_up(page):
    """Do not cover each other, and one is chosen by a click anywhere on it."""
    page.click("#names")
    page.click("#centres")
    page.js("const v = magnet.maps[0]; v.camera.middle = Array.from(v.moment.centres.positions.slice(0, 2)); v.zoom(6)")
    page.settle()
    boxes = page.js("return magnet.maps[0].pictures")
    assert len(boxes) >= 3
    side = boxes[0]["height"]
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:
            shared = side - abs(a["left"] - b["left"]), side - abs(a["top"] - b["top"])
            assert min(shared) <= 0.3 * side + 1e-6
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
    page.choose_at(corner)
    page.until("magnet.state.selection")
    assert page.js("return magnet.state.selection.id") == last


def drag_and_zoom(page):
    """By the mouse and its wheel, or by one finger and two; what is under them stays there."""
    box = page.js("return magnet.maps[0].stage.getBoundingClientRect().toJSON()")
    at = box["x"] + 100, box["y"] + 80
    if page.phone:
        page.fingers("touchStart", at)
        page.fingers("touchMove", (at[0] + 60, at[1] + 30))
        page.fingers("touchEnd")
    else:
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
    under = page.js("const f = magnet.maps[0].frame(); return f.bounds[0] + 100 / f.scale")
    if page.phone:
        page.fingers("touchStart", at)
        page.fingers("touchStart", at, (at[0] + 80, at[1]))
        page.fingers("touchMove", at, (at[0] + 160, at[1]))
        page.fingers("touchEnd")
        page.until("magnet.maps[0].frame().zoom > 1")
    else:
        page.js(
            "magnet.maps[0].stage.dispatchEvent(new WheelEvent('wheel', {deltaY: -400, clientX: arguments[0],"
            "clientY: arguments[1], bubbles: true, cancelable: true}))",
            *at,
        )
    zoom, x = page.js("const f = magnet.maps[0].frame(); return [f.zoom, f.x(arguments[0])]", under)
    assert zoom > 1.5
    if not page.phone:
        assert x == pytest.approx(100, abs=0.5)
    assert page.js("return magnet.state.selection") is None
    page.click(".zooms button:last-child")
    assert page.js("return magnet.maps[0].frame().zoom") == pytest.approx(1)


def colourings(page):
    """Each can be chosen and has a legend that matches."""
    seen = set()
    ways = {"cluster": "shade", "loss": "more", "prediction": "9", "correct": "wrong", "split": "test"}
    for way, word in ways.items():
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


def time(page):
    """With the slider moved, map and panel speak of the same moment, and the slider keeps its place."""
    assert page.text("#moment") == "evaluated step of each run"
    assert page.js("return getComputedStyle(document.getElementById('evaluated')).left") != "auto"
    assert "last: step 60 of 60" in page.text(".map .caption")
    counts = "return magnet.maps.map((view) => view.moment.shown.length)"
    assert page.js(counts) == [500, 500]
    page.js("const m = magnet.data.runs[0].end; magnet.select({kind: 'cluster', moment: m, cluster: 3})")
    slider = page.driver.find_element("css selector", "#slider")
    before = slider.rect
    slider.send_keys(LEFT)
    page.until("magnet.maps[0].moment.step === 45")
    assert page.text("#moment") == "step 45 of 60"
    assert slider.rect == before
    assert "step 45 of 60 · training part" in page.text(".map .caption")
    assert "of magnet, at step 45 of 60" in page.words("#panel")
    assert page.js("return magnet.state.selection.moment === magnet.maps[0].moment")
    for tab in ("Summary", "Suspects", "Modes"):
        page.click(f"#tab-{tab}")
        assert "As it was at step 45 of 60." in page.words("#panel"), tab
    page.click("#tab-Summary")
    assert "training example" in page.words(".confusion")
    assert "taken for" in page.words(".suspect")  # by the refresh, not by held-out votes of the end
    trained, other = page.js(
        "const m = magnet.maps[0].moment; return [m.shown[0], magnet.data.runs[0].end.shown.find((id) => "
        "m.place[id] < 0)]"
    )
    page.js("magnet.select({kind: 'example', id: arguments[0], run: 0})", trained)
    assert "As it was at step 45 of 60." in page.words("#panel")
    page.js("magnet.select({kind: 'example', id: arguments[0], run: 0})", other)
    assert "holds the training part only: this is step 60 of 60, evaluated" in page.words("#panel")
    page.show_map()
    slider.send_keys(HOME)
    page.until("magnet.maps[0].moment.step === 0")
    assert page.js(counts)[1] == 500  # softmax kept none and stays where it is


def search_and_keys(page):
    """An example is found by its name, and the arrow keys go on from it."""
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
    assert page.js("return document.getElementById('found').getBoundingClientRect().right <= innerWidth")
    found = page.driver.find_elements("css selector", "#found li")
    next(row for row in found if row.text.split("\n")[0] == name).click()
    page.until("magnet.state.selection?.kind === 'example'")
    before = page.js("return magnet.state.selection.id")
    assert page.js("return magnet.data.names[arguments[0]]", before) == name
    page.until("document.getElementById('panel').clientHeight > 200")  # on a phone the details open
    assert name in page.text("#panel")
    assert name in page.words("#status")
    stage = page.driver.find_element("css selector", ".stage")
    stage.send_keys(RIGHT)
    page.until(f"magnet.state.selection.id !== {before}")
    stage.send_keys(ENTER)
    page.until("magnet.state.selection.kind === 'cluster'")
    stage.send_keys(ESCAPE)
    page.until("magnet.state.selection === null")


def other_theme(page):
    """The page follows the reader's liking until its button is used; points have the colours of the theme."""
    grounds = {"dark": "rgb(20, 24, 31)", "light": "rgb(255, 255, 255)"}
    ground, points = "return getComputedStyle(document.body).backgroundColor", "return magnet.maps[0].points.values"
    first = page.js("return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'")
    assert page.js(ground) == grounds.pop(first)
    before = page.js(f"{points}.colour.slice(0, 3)")
    page.click("#theme")
    page.settle()
    assert page.js(ground) == grounds.popitem()[1]
    assert page.js(f"{points}.colour.slice(0, 3)") != before


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
