"""The report in a real browser: on a desk and on a phone, light and dark."""

import pytest

from magnet.report.summary.findings import measure, read_runs
from magnet.report.summary.page import write_report
from report.browser import Page, complaints, everywhere, look_like

ENTER = "\ue007"


@pytest.fixture(scope="module")
def report(digits_magnet, digits_softmax, tmp_path_factory):
    runs = read_runs([digits_magnet, digits_softmax])
    for run in runs:
        measure(run)
    return write_report(runs, tmp_path_factory.mktemp("report") / "report.html")[-1]


@everywhere
def test_it_is_readable_at_every_size_and_axe_finds_nothing(report, browser, axe, size, theme):
    look_like(browser, size, theme)
    browser.get_log("browser")
    page = Page(browser, report, ready="document.readyState === 'complete'")
    assert page.js("return document.documentElement.scrollWidth") <= size[0]
    assert (
        page.js("return getComputedStyle(document.body).color")
        == {"light": "rgb(26, 34, 45)", "dark": "rgb(232, 236, 242)"}[theme]
    )
    assert complaints(page, axe) == []
    page.js(
        "for (const e of document.querySelectorAll('.sides small')) e.textContent = 'english cocker spaniel looks like'"
    )
    assert page.js("return document.documentElement.scrollWidth") <= size[0]  # with long names too
    pair = page.driver.find_element("css selector", ".matrix a[href*=pair]")
    target = pair.get_dom_attribute("href").removeprefix("#")
    page.js("location.hash = arguments[0]", target)
    assert page.js("return document.querySelector(':target').getBoundingClientRect().top < innerHeight")
    assert page.js("const i = document.querySelector(':target img'); return i.complete && i.naturalWidth") == 8
    look_at_pictures(page, size, target, axe)
    assert page.js("return performance.getEntriesByType('resource').filter((e) => !e.name.startsWith('data:'))") == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def look_at_pictures(page, size, pair, axe):
    """By the keyboard and by a click a picture opens large, without a script; "Close" and the way back close it."""
    where = "return decodeURIComponent(location.hash.slice(1))"
    links = page.driver.find_elements("css selector", ":target .picture > a:not(.close)")
    assert len(links) >= 2
    before = links[0].rect["width"]
    links[0].send_keys(ENTER)
    opened = page.js(where)
    assert opened.startswith("picture-")
    box = page.js("return document.querySelector(':target img').getBoundingClientRect().toJSON()")
    assert box["width"] > 3 * before
    assert 0 <= box["left"] < box["right"] <= size[0]
    assert 0 <= box["top"] < box["bottom"] <= size[1]
    assert "taken for" in page.text(":target .words")
    assert "digit" in page.text(":target .words small")  # the name of the example
    assert complaints(page, axe) == []
    page.click(":target .close b")
    assert page.js(where) == pair
    assert not page.js("return document.querySelector('.picture .close').checkVisibility()")
    page.driver.back()
    page.until(f"location.hash === '#{opened}'")
    page.driver.back()
    page.until(f"location.hash === '#{pair}'")
    links[1].click()
    assert page.js(where) not in (opened, pair)
    page.js("document.elementFromPoint(4, innerHeight / 2).closest('a').click()")  # beside the picture
    assert page.js(where) == pair
