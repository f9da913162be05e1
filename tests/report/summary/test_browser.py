"""The report in a real browser: on a desk and on a phone, light and dark."""

import pytest

from magnet.report.summary.findings import measure, read_runs
from magnet.report.summary.page import write_report
from report.browser import DESKTOP, PHONE, Page, complaints, look_like


@pytest.fixture(scope="module")
def report(digits_magnet, digits_softmax, tmp_path_factory):
    runs = read_runs([digits_magnet, digits_softmax])
    for run in runs:
        measure(run)
    return write_report(runs, tmp_path_factory.mktemp("report") / "report.html")[-1]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
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
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
