"""Take the pictures of docs/quickstart.md from a run: python scripts/make_pictures.py RUN OUT. Needs Chromium and selenium."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

LINKS = {"overview": "#/run/", "tasks": "#/tasks/", "group": "#/group/", "trajectory": "#/trajectory/"}
"""Picture → beginning of the link that leads to its page from the page before. The first link is a run's."""
TIMEOUT_S = 60


def main(run: Path, out: Path) -> None:
    """Write overview.png, tasks.png, group.png and trajectory.png to the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    with serve(run) as address, browse() as browser:
        browser.get(address)
        for name, start in LINKS.items():
            follow(browser, start)
            browser.save_screenshot(str(out / f"{name}.png"))


@contextmanager
def serve(run: Path) -> Iterator[str]:
    """Run `turnsmith view` on a free port; yield the address."""
    command = [sys.executable, "-u", "-m", "turnsmith", "view", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            yield read_address(server)
        finally:
            server.terminate()


def read_address(server: subprocess.Popen[str]) -> str:
    """Return the first address that the server prints. Raises SystemExit if it prints none."""
    lines = []
    for line in server.stdout or []:
        if found := re.search(r"http://[\w.:/-]+", line):
            return found[0]
        lines.append(line)
    raise SystemExit(f"turnsmith view did not start: {''.join(lines)}")


@contextmanager
def browse() -> Iterator[Chrome]:
    """Start Chromium without a window, 1280 × 800 pixels."""
    options = ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,800"):
        options.add_argument(argument)
    browser = Chrome(options=options, service=ChromeService("/usr/bin/chromedriver"))
    try:
        yield browser
    finally:
        browser.quit()


def follow(browser: Chrome, start: str) -> None:
    """Open the page of the last link in the page's body that begins with `start`, and wait until it is drawn."""
    script = (
        "return document.querySelector('main')?.innerText.length > 40 && [...document.images].every(i => i.complete)"
    )
    selector = f"main a[href^='{start}']"
    if start not in browser.current_url:
        links = WebDriverWait(browser, TIMEOUT_S).until(lambda _: browser.find_elements(By.CSS_SELECTOR, selector))
        link = links[-1 if start == LINKS["group"] else 0]
        before = browser.current_url
        browser.get(str(link.get_property("href")))
        WebDriverWait(browser, TIMEOUT_S).until(lambda _: browser.current_url != before)
    WebDriverWait(browser, TIMEOUT_S).until(lambda _: browser.execute_script(script))
    browser.implicitly_wait(1)
    browser.execute_async_script("setTimeout(arguments[0], 1500)")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
