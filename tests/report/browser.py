"""A real browser, headless, and the few things that the tests do with it."""

import io
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
)  # fmt: skip
PATIENCE = 60  # seconds, for a machine that is busy with other things
DESKTOP, PHONE = (1440, 900), (390, 844)
everywhere = pytest.mark.parametrize(
    ("size", "theme"), [(size, theme) for size in (DESKTOP, PHONE) for theme in ("light", "dark")]
)


def start(profile: Path) -> Any:
    """Chromium with a new empty profile; skips the test where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    browser, driver = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    if not browser or not driver:
        pytest.skip("needs Chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in (*ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    started.set_script_timeout(PATIENCE)
    return started


def look_like(driver: Any, size: tuple[int, int], theme: str) -> None:
    """Give the window a size, a phone's where it is narrow, and the reader a liking for "light" or "dark"."""
    phone = size[0] < 900
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 2 if phone else 1, "mobile": phone}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": phone})
    features = [{"name": "prefers-color-scheme", "value": theme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


class Page:
    """A page in the browser."""

    def __init__(self, driver: Any, file: Path, *, ready: str = "window.magnet && magnet.ready") -> None:
        self.driver = driver
        driver.get(file.resolve().as_uri())
        self.until(ready)

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, condition: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.js(f"return Boolean({condition})"):
            assert time.monotonic() < end, f"never came true: {condition}"
            time.sleep(0.05)

    def settle(self) -> None:
        """Wait until what was asked for has been drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
        )

    def text(self, selector: str) -> str:
        return self.driver.find_element("css selector", selector).text

    def words(self, selector: str) -> str:
        """All text of an element, whether it is in view or not."""
        return str(self.js("return document.querySelector(arguments[0]).textContent", selector))

    def count(self, selector: str) -> int:
        return len(self.driver.find_elements("css selector", selector))

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a select element by its value."""
        script = (
            "const c = document.querySelector(arguments[0]); c.value = arguments[1]; c.dispatchEvent(new "
            "Event('change'))"
        )
        self.js(script, selector, value)

    def place(self, what: str, *arguments: Any) -> tuple[Any, float, float]:
        """The stage of a map, and pixels from its middle, of what a script finds: [map, x, y], x and y on the map."""
        number, x, y = self.js(
            f"const [map, x, y] = (() => {{{what}}})(); const f = magnet.maps[map].frame();"
            "return [map, f.x(x) - f.width / 2, f.y(y) - f.height / 2]",
            *arguments,
        )
        return self.driver.find_elements("css selector", ".stage")[number], x, y

    def point(self, what: str, *arguments: Any, act: Callable[[Any], Any] = lambda mouse: mouse.click()) -> None:
        """Move the mouse there; and click."""
        from selenium.webdriver import ActionChains

        stage, x, y = self.place(what, *arguments)
        mouse = ActionChains(self.driver, duration=0).move_to_element_with_offset(stage, round(x), round(y))
        act(mouse)
        mouse.perform()

    @property
    def phone(self) -> bool:
        """Whether the window is a phone's, which is used by fingers."""
        return bool(self.js("return innerWidth < 900"))

    def fingers(self, kind: str, *places: tuple[float, float]) -> None:
        """Fingers on a phone: touchStart, touchMove or touchEnd, with all that are down, in pixels of the window."""
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
        self.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def tap(self, what: str, *arguments: Any) -> None:
        """Put a finger there for a moment."""
        stage, x, y = self.place(what, *arguments)
        box = stage.rect
        self.fingers("touchStart", (box["x"] + box["width"] / 2 + x, box["y"] + box["height"] / 2 + y))
        self.fingers("touchEnd")

    def choose_at(self, what: str) -> None:
        """Choose what lies there: by a click or, on a phone, with a finger."""
        (self.tap if self.phone else self.point)(what)

    def show_map(self) -> None:
        """Close the details where they are a sheet over the map."""
        if self.phone:
            self.js("const s = document.getElementById('sheet'), g = document.getElementById('grip');"
                    "while (!s.classList.contains('closed')) g.click()")  # fmt: skip
            self.until("magnet.maps.some((view) => view.stage.clientHeight > 300)")
        self.settle()

    def afresh(self) -> None:
        """As the page was at first: nothing chosen, all of the map in view; on a phone with the details closed."""
        self.js(
            "magnet.select(null, 'Summary');"
            "for (const id of ['names', 'regions', 'centres']) {"
            "  const box = document.getElementById(id); if (!box.checked) box.click(); }"
            "const set = (id, value, name) => { const e = document.getElementById(id);"
            "  if (e.value !== value) { e.value = value; e.dispatchEvent(new Event(name)); } };"
            "set('colour', 'class', 'change'); set('slider', document.getElementById('slider').max, 'input');"
        )
        self.show_map()
        self.js("magnet.maps.forEach((view) => { if (view.stage.clientWidth) view.reset(); })")
        self.settle()

    def handling(self, script: str, times: int = 5) -> float:
        """Milliseconds of the processor that a script takes in the page: the least of some times.

        Not by the clock: a machine has other things to do.
        """

        def now() -> float:
            metrics = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
            return next(1000 * float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")

        self.driver.execute_cdp_cmd("Performance.disable", {})
        self.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        taken = []
        for _ in range(times):
            before = now()
            self.js(script)
            taken.append(now() - before)
        return min(taken)

    def picture(self, selector: str) -> np.ndarray:
        """What is seen of an element, (h, w, 3)."""
        self.settle()
        png = self.driver.find_element("css selector", selector).screenshot_as_png
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def complaints(page: Page, axe: str) -> list[Any]:
    """What axe-core finds wrong with a page as it is now: rules, each with some of the elements that break it."""
    page.js(axe)
    found: list[Any] = page.driver.execute_async_script(
        "const done = arguments[0]; axe.run().then((found) => done(found.violations.map((v) =>"
        "[v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + n.failureSummary)])))"
    )
    return found


def colourful(picture: np.ndarray) -> int:
    """How many pixels are neither grey, black nor white."""
    return int((picture.max(axis=2) - picture.min(axis=2) > 60).sum())
