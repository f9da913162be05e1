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
    "--window-size=1300,850",
)  # fmt: skip
PATIENCE = 180  # seconds, for a machine that is busy with other things


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


class Page:
    """An explorer page in the browser."""

    def __init__(self, driver: Any, file: Path) -> None:
        self.driver = driver
        driver.get(file.as_uri())
        self.until("window.magnet && magnet.ready")

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

    def count(self, selector: str) -> int:
        return len(self.driver.find_elements("css selector", selector))

    def click(self, selector: str) -> None:
        self.driver.find_element("css selector", selector).click()

    def point(self, what: str, *arguments: Any, act: Callable[[Any], Any] = lambda mouse: mouse.click()) -> None:
        """Move the mouse to what a script finds: [map, x, y] in the square of the map; and click there."""
        number, x, y = self.js(
            f"const [map, x, y] = (() => {{{what}}})(); const f = magnet.maps[map].frame();"
            "return [map, f.x(x) - f.width / 2, f.y(y) - f.height / 2]",
            *arguments,
        )
        stage = self.driver.find_elements("css selector", ".stage")[number]
        from selenium.webdriver import ActionChains

        mouse = ActionChains(self.driver, duration=0).move_to_element_with_offset(stage, round(x), round(y))
        act(mouse)
        mouse.perform()

    def picture(self, selector: str) -> np.ndarray:
        """What is seen of an element, (h, w, 3)."""
        self.settle()
        png = self.driver.find_element("css selector", selector).screenshot_as_png
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def colourful(picture: np.ndarray) -> int:
    """How many pixels are neither grey, black nor white."""
    return int((picture.max(axis=2) - picture.min(axis=2) > 60).sum())
