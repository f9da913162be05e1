"""The page by touch and by keyboard, in a real browser."""

import pytest

from report.browser import PHONE, everywhere
from report.explorer.test_browser import EXAMPLE

TAB, ARROW = "\ue004", "\ue014"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_phone_a_tap_opens_the_details_below_the_map_and_nothing_is_cut_off(digits_page, open_page, theme):
    page = open_page(digits_page, PHONE, theme)
    page.js("const grip = document.getElementById('grip'); grip.click(); grip.click()")  # from half open to closed
    page.until("magnet.maps[0].stage.clientHeight > 350")
    page.settle()
    wide = "return [document.documentElement.scrollWidth, innerWidth]"
    assert page.js(wide) == [390, 390]
    page.tap(EXAMPLE)
    page.until("magnet.state.selection")
    page.until("document.getElementById('panel').clientHeight > 300")
    sheet, stage, picture = page.js(
        "return ['#sheet', '.map.front .stage', '#enlarge'].map((s) => "
        "document.querySelector(s).getBoundingClientRect().toJSON())"
    )
    assert sheet["bottom"] == pytest.approx(844, abs=1)
    assert stage["height"] > 200  # the map is still seen
    assert stage["bottom"] <= sheet["top"] + 1
    assert picture["top"] > sheet["top"]
    assert picture["bottom"] < 844
    chosen = page.js(
        "const v = magnet.maps[0], at = v.moment.place[magnet.state.selection.id]; return "
        "v.frame().y(v.moment.positions[2 * at + 1])"
    )
    assert 0 < chosen < stage["height"]
    assert page.js(wide) == [390, 390]
    assert page.js("const p = document.getElementById('panel'); return p.scrollWidth <= p.clientWidth")


def test_on_a_phone_one_run_is_in_front_and_another_can_be_brought_there(digits_page, open_page):
    page = open_page(digits_page, PHONE)
    seen = "return magnet.maps.map((view) => view.box.checkVisibility())"
    assert page.js(seen) == [True, False]
    page.click("#fronts button:nth-child(2)")
    assert page.js(seen) == [False, True]
    page.settle()
    assert page.js("return magnet.maps[1].stage.clientHeight") > 200


def test_on_a_phone_the_key_for_the_search_closes_the_details_that_would_cover_it(digits_page, open_page):
    page = open_page(digits_page, PHONE)
    assert not page.js("return document.getElementById('search').checkVisibility()")
    page.driver.find_element("css selector", "body").send_keys("/")
    page.until("document.activeElement.id === 'search'")
    page.until("document.activeElement.getBoundingClientRect().bottom < document.getElementById('sheet').offsetTop")


def test_the_sheet_goes_by_its_grip_from_closed_to_half_to_full(digits_page, open_page):
    page = open_page(digits_page, PHONE)
    assert page.js("return document.getElementById('sheet').className") == "half"  # it opens on the summary
    for how, label in {"full": "Close the details", "closed": "Open the details", "half": "Open the details"}.items():
        page.js("document.getElementById('grip').click()")
        assert page.js("return document.getElementById('sheet').className") == how
        assert page.js("return document.getElementById('grip').getAttribute('aria-label')") == label


@everywhere
def test_the_tab_key_goes_through_the_page_in_order_and_the_legend_is_one_stop(digits_page, open_page, size, theme):
    from selenium.webdriver import ActionChains

    page = open_page(digits_page, size, theme)
    page.show_map()
    page.js(
        "document.activeElement.blur(); window.getSelection().removeAllRanges(); window.stops = [];"
        "addEventListener('focusin', ({target: e}) => stops.push(e.id || e.className.split(' ')[0] || "
        "e.parentElement.className || e.parentElement.id))"
    )
    ActionChains(page.driver, duration=0).send_keys(TAB * 24).perform()
    stops = page.js("return stops")
    stops = stops[: stops.index("panel") + 1]
    wanted = ["search", "colour", "names", "regions", "centres", "theme", "play", "slider", "class-key", "tab-Summary"]
    if page.phone:  # in the order of the page as it is seen
        wanted.insert(-1, "grip")
    wanted.append("panel")
    assert [stop for stop in stops if stop in wanted] == wanted
    assert stops.count("stage") == (1 if page.phone else 2)
    page.js("document.querySelector('.class-key').focus()")
    ActionChains(page.driver, duration=0).send_keys(ARROW).perform()
    assert page.js("return document.activeElement.textContent") == "1"
    outline = page.js("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
