"""Every panel of the page, on a desk and a phone, light and dark, of photographs, of a table, of two runs in time."""

import pytest

from report.browser import DESKTOP, PHONE, complaints, everywhere
from report.explorer.test_browser import overlapping

# What stands in the way of reading the page as it is now, in words; [least height of a target] as its argument.
TROUBLE = """
  const found = [], seen = (e) => e.checkVisibility() && e.getBoundingClientRect().width > 0;
  const say = (what, e) => found.push(`${what}: ${e.id || e.className} ${e.textContent.slice(0, 60)}`);
  if (document.documentElement.scrollWidth > innerWidth) found.push('the page scrolls sideways');
  const panel = document.getElementById('panel'), box = panel.getBoundingClientRect();
  if (panel.scrollWidth > panel.clientWidth) found.push('the panel scrolls sideways');
  for (const e of panel.querySelectorAll('*')) {
    if (seen(e) && e.getBoundingClientRect().right > box.right + 1) say('beyond the panel', e);
  }
  for (const e of document.querySelectorAll('#panel *, header *, .map .caption *, #time *, #tooltip *, #viewer *')) {
    const text = [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const cuts = getComputedStyle(e).overflowX === 'hidden';
    if (text && cuts && seen(e) && e.scrollWidth > e.clientWidth + 1) say('cut', e);
  }
  for (const e of document.querySelectorAll('header *, #time *, #tabs button, .zooms button')) {
    const b = e.getBoundingClientRect();
    if (seen(e) && (b.right > innerWidth + 1 || b.left < -1)) say('outside the window', e);
  }
  for (const e of document.querySelectorAll('button, select, input')) {
    const target = e.closest('label.check') ?? e;
    if (seen(e) && e.id !== 'grip' && target.getBoundingClientRect().height < arguments[0] - 0.5) say('small', e);
  }
  return found"""
TAB = "document.getElementById('tab-{}').click()"
SUSPECT = TAB.format("Suspects") + "; document.querySelector('.suspect').click()"
LOOKS = {  # what is done, and the elements that must be there then
    "summary": (TAB.format("Summary"), ["#errors .own"]),
    "nothing": (f"magnet.select(null); {TAB.format('Selection')}", ["#panel h2"]),
    "suspects": (TAB.format("Suspects"), [".suspect canvas", "#export"]),
    "modes": (TAB.format("Modes"), [".mode canvas", "#modes-class"]),
    "about": (TAB.format("About"), ["kbd"]),
    "suspect": (SUSPECT, ["#enlarge canvas", "#marks button", ".bar", "#panel .grid button.thumb"]),
    "marked": (
        f"{SUSPECT}; document.querySelector('#marks button:nth-of-type(2)').click()",
        ["#marks select", "#marks [aria-pressed=true]"],
    ),
    "cluster": (
        "magnet.select({kind: 'cluster', moment: magnet.data.runs[0].end, cluster: 0})",
        [".facts b", "#panel .grid canvas"],
    ),
    "class": ("magnet.select({kind: 'class', label: 1})", ["#panel table", "#panel .grid canvas"]),
    "confusion": (
        TAB.format("Summary") + "; document.querySelector('.confusion')?.click()",
        ["#panel h2"],
    ),
}
TABLE = {
    "suspect": (SUSPECT, ["#features tr", ".deviation.class i", ".deviation:not(.class) i"]),
    "cluster": (LOOKS["cluster"][0], ["#apart tr"]),
    "class": (LOOKS["class"][0], ["#apart tr"]),
}
TIME = "const s = document.getElementById('slider'); s.value = 1; s.dispatchEvent(new Event('input'))"
TWO = {
    "summary": (TAB.format("Summary"), [".confusion canvas", ".suspect canvas", ".unusual canvas"]),
    "compare": (TAB.format("Compare"), [".agreement button"]),
    "earlier": (f"{TIME}; {TAB.format('Summary')}", [".note", ".confusion, .suspect"]),
    "earlier example": ("magnet.select({kind: 'example', id: magnet.maps[0].moment.shown[0], run: 0})", [".note"]),
}


def walk(page, size, looks, axe=None):
    """Look at everything in turn; with the source of axe-core, let that look as well."""
    phone = size == PHONE
    for name, (script, wanted) in looks.items():
        page.js(script)
        page.settle()
        for selector in wanted:
            assert page.js("return Boolean(document.querySelector(arguments[0])?.checkVisibility())", selector), (
                name,
                selector,
            )
        assert page.js(TROUBLE, 40 if phone else 0) == [], name
        if axe:
            assert complaints(page, axe) == [], name


def look_at_the_map(page, size):
    """All of it and close up, in every colouring: names don't overlap, nothing is outside the window."""
    page.show_map()
    for way in page.js("return [...document.getElementById('colour').options].map((option) => option.value)"):
        page.choose("#colour", way)
        page.settle()
        assert page.js(TROUBLE, 40 if size == PHONE else 0) == [], way
        assert page.text("#legend")
    page.choose("#colour", "class")
    for factor in (1, 3, 3):
        page.js(
            "const v = magnet.maps[0], p = v.moment.positions; v.camera.middle = [p[0], p[1]]; v.zoom(arguments[0])",
            factor,
        )
        page.settle()
        names = page.js("return magnet.maps[0].names.map(({left, top, width}) => ({left, top, width}))")
        assert names
        assert not overlapping(names)


@everywhere
def test_photographs(photo_page, open_page, size, theme):
    page = open_page(photo_page, size, theme)
    walk(page, size, LOOKS)
    page.js("magnet.select({kind: 'example', id: 0, run: 0}); document.getElementById('enlarge').click()")
    walk(page, size, {"large": ("", ["#viewer canvas", "#viewer .original"])})
    page.js("document.getElementById('viewer').close()")
    look_at_the_map(page, size)


@everywhere
def test_a_table(wine_page, open_page, size, theme):
    page = open_page(wine_page, size, theme)
    walk(page, size, LOOKS | TABLE)
    page.js("magnet.select({kind: 'example', id: 0, run: 0}); document.getElementById('enlarge').click()")
    walk(page, size, {"all values": ("", ["#viewer .bars tr"])})
    assert page.count("#viewer .bars tr") == 13
    page.js("document.getElementById('viewer').close()")
    look_at_the_map(page, size)


@everywhere
def test_two_runs_and_time(digits_page, open_page, size, theme):
    page = open_page(digits_page, size, theme)
    walk(page, size, LOOKS | TWO)
    page.show_map()
    assert page.text("#moment") == "step 15 of 60"
    assert page.js("return document.getElementById('evaluated').checkVisibility()")
    assert "step 15 of 60 · training part" in page.text(".map.front .caption")
    look_at_the_map(page, size)


@everywhere
def test_axe_finds_nothing_to_complain_about(digits_page, open_page, axe, size, theme):
    page = open_page(digits_page, size, theme)
    walk(page, size, {name: LOOKS[name] for name in ("summary", "suspects", "marked", "about")} | TWO, axe)


@pytest.mark.parametrize(("size", "theme"), [(DESKTOP, "dark"), (PHONE, "light")])
def test_axe_finds_nothing_in_photographs_and_tables(photo_page, wine_page, open_page, axe, size, theme):
    page = open_page(wine_page, size, theme)
    walk(page, size, TABLE, axe)
    page = open_page(photo_page, size, theme)
    walk(page, size, {name: LOOKS[name] for name in ("summary", "cluster", "confusion")}, axe)
    page.js("magnet.select({kind: 'example', id: 0, run: 0}); document.getElementById('enlarge').click()")
    assert complaints(page, axe) == []
