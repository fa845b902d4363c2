"""Chromium without a window, and a server of pages in this process, for the tests of the pages."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from uvicorn import Config, Server

from turnsmith.cli.viewing import listen
from turnsmith.ui.view.continuing import Continue
from turnsmith.ui.view.opened import find_runs
from turnsmith.ui.view.server import make_server

WAIT_S = 60

CONTRASTS = """
const toRgb = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = toRgb(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.textContent.trim() || element.closest("[disabled], option, script, svg") || !element.checkVisibility()) continue;
  const [one, other] = [toRgb(getComputedStyle(element).color), ground(element)].map(luminance).sort((a, b) => b - a);
  const ratio = (one + 0.05) / (other + 0.05);
  if (ratio < 4.5) found.push(`${node.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return [...new Set(found)];
"""
"""Script that lists texts whose contrast with their background is below 4.5 (WCAG 2.2, criterion 1.4.3)."""


@contextmanager
def serve(path: Path, continue_run: Continue | None = None) -> Iterator[str]:
    """Serve the pages of a run, or a folder of runs, from a thread; yield the address."""
    with listen(0) as listener:
        server = Server(Config(make_server(find_runs(path), continue_run), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def open_chromium() -> Iterator[Chrome]:
    """Start Chromium, 1280 × 800 pixels, with an empty profile."""
    options = ChromeOptions()
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,800"):
        options.add_argument(argument)
    browser = Chrome(options=options, service=ChromeService("/usr/bin/chromedriver"))
    try:
        yield browser
    finally:
        browser.quit()


def find(browser, selector, text=""):
    """Wait for the first element in the page that matches a CSS selector and contains a text; return it."""

    def look(_):
        return next((each for each in browser.find_elements(By.CSS_SELECTOR, selector) if text in each.text), None)

    return WebDriverWait(browser, WAIT_S, ignored_exceptions=[StaleElementReferenceException]).until(look)


def click(browser, selector, text=""):
    """Click on an element in the middle of the window."""
    element = find(browser, selector, text)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()


def picture(browser, name):
    """Keep a screenshot in the folder TURNSMITH_PICTURES, if it is given."""
    if folder := os.environ.get("TURNSMITH_PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(f"{folder}/{name}.png")
