"""A headless Chromium that tests look at pages with, and the waiting that goes with it."""

import json
import shutil
import time
from urllib.parse import urljoin

import pytest

PATIENCE = 300  # seconds


def open_browser(folder):
    """A browser with a profile in a folder; the test is skipped where there is none."""
    selenium = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(option)
    options.add_argument("--window-size=1280,900")
    options.add_argument(f"--user-data-dir={folder}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return selenium.Chrome(options=options, service=selenium.ChromeService(driver))


class Page:
    """The playground in a browser."""

    def __init__(self, browser, address):
        self.browser = browser
        self.address = address

    def open(self, address=""):
        """Load the playground, from a server or its own file, also if only the fragment is new, until it is ready."""
        self.browser.get("about:blank")
        self.browser.get(urljoin(self.address, address))
        self.wait("document.getElementById('choice').options.length")

    def script(self, code, *values):
        """What a piece of JavaScript returns."""
        return self.browser.execute_script(code, *values)

    def one(self, selector):
        """The element of a selector."""
        return self.browser.find_element("css selector", selector)

    def text(self, selector):
        """What an element says."""
        return self.script("return document.querySelector(arguments[0]).textContent", selector)

    def texts(self, selector):
        """What each of some elements says."""
        return self.script(
            "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)", selector
        )

    def keys(self, selector, *names):
        """Press keys in an element, as events: what a reader of the keyboard gets."""
        for name in names:
            code = (
                "document.querySelector(arguments[0]).dispatchEvent(new KeyboardEvent('keydown', "
                "{key: arguments[1], shiftKey: arguments[2], bubbles: true, cancelable: true}))"
            )
            self.script(code, selector, name.removeprefix("Shift+"), name.startswith("Shift+"))

    def set(self, selector, value):
        """Give an input or a menu a value."""
        code = (
            "const it = document.querySelector(arguments[0]); it.value = arguments[1];"
            "for (const kind of ['input', 'change']) it.dispatchEvent(new Event(kind, {bubbles: true}))"
        )
        self.script(code, selector, value)

    def drag(self, selector, *places):
        """Drag a pointer over an element, through places from its lower left corner, as shares of its size."""
        code = """
            const it = document.querySelector(arguments[0]);
            const {left, top, width, height} = it.getBoundingClientRect();
            const send = (kind, [x, y]) => it.dispatchEvent(new PointerEvent(kind, {
                pointerId: 1, button: 0, bubbles: true, clientX: left + x * width, clientY: top + (1 - y) * height}));
            send("pointerdown", arguments[1][0]);
            for (const place of arguments[1]) send("pointermove", place);
            send("pointerup", arguments[1].at(-1));
        """
        self.script(code, selector, [list(place) for place in places])

    def wait(self, condition, what="the page"):
        """Wait until a piece of JavaScript is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.script(f"return Boolean({condition})"):
            assert time.monotonic() < deadline, f"{what} took too long: {json.dumps(self.errors())}"
            time.sleep(0.02)

    def errors(self):
        """What the browser complained of since this was asked last."""
        return [entry["message"] for entry in self.browser.get_log("browser")]
