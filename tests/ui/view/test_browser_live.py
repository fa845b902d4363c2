"""A small run of the whole recipe, followed in Chromium from its start to its end; then an episode is continued."""

import shutil
import subprocess
import sys
import time

import pytest
from selenium.webdriver.common.by import By

from support.machine.browser import click, find, open_chromium, picture, serve
from turnsmith.cli.viewing import continue_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not shutil.which("chromedriver"), reason="chromium and chromium-driver are missing: install them"
    ),
]

SMALL = (
    "--train_tasks.practice_tasks 24 --eval_tasks.practice.practice_tasks 4 --eval_tasks.inflection null "
    "--stages.0.iterations 2 --stages.1.iterations 1 --rft.rollouts_per_task 8"
).split()
LIMIT_S = 900
RESOLVED = "trajectories/run/{}/resolved"


@pytest.fixture(scope="module")
def chromium():
    with open_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Start a small run; yield its folder and process."""
    folder = tmp_path_factory.mktemp("live") / "run"
    command = [sys.executable, "-m", "turnsmith", "run", "configs/laptop.toml", *SMALL, "--out", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield folder, process
        finally:
            process.kill()


@pytest.fixture
def pages(started):
    """Serve the run's pages; yield the address of its overview."""
    folder, process = started
    while not (folder / "config.json").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.1)
    with serve(folder, continue_run) as address:
        yield address


READ = """
const title = [...document.querySelectorAll("h2")].find((each) => each.textContent === "Iterations");
return [document.querySelector("h1 .faint")?.textContent, title?.nextSibling.querySelectorAll("tbody tr").length];
"""
"""Script that returns the state of a run and the number of its iterations, as the page shows them."""


def test_a_live_run_is_followed_from_its_first_to_its_last_iteration(pages, started, chromium):
    chromium.get(f"{pages}#/run/run")
    seen, deadline = [], time.monotonic() + LIMIT_S
    while not seen or seen[-1][0] != "finished":
        assert time.monotonic() < deadline
        if (now := tuple(chromium.execute_script(READ))) not in seen[-1:]:
            seen.append(now)
            picture(chromium, f"live-{len(seen)}")
        time.sleep(0.5)
    numbers = [number for _, number in seen if number is not None]
    assert numbers == sorted(numbers) and {0, 1, 2, 3, 4} <= set(numbers)
    assert ("running", 1) in seen
    assert started[1].wait(60) == 0


def test_an_episode_is_continued_by_hand_and_by_the_policy(pages, chromium):
    chromium.get("about:blank")
    chromium.get(f"{pages}#/trajectories/run/stages%2Frft%2Fiteration-0000/resolved")
    click(chromium, "tbody a")
    last = find(chromium, "section.turn:last-of-type").get_attribute("id")
    chromium.execute_script(f"document.querySelector('#{last} details').open = true")
    find(chromium, f"#{last} textarea")
    click(chromium, f"#{last} form button")
    rows = find(chromium, f"#{last} table", "continued").find_elements(By.CSS_SELECTOR, "tbody tr")
    assert [("resolved" in row.text) for row in rows] == [True, True]
    picture(chromium, "continued")
    chromium.execute_script("document.querySelector('#turn-1 details').open = true")
    find(chromium, "#turn-1 textarea").clear()
    find(chromium, "#turn-1 textarea").send_keys("```command\nls\n```")
    click(chromium, "#turn-1 input[name=policy]")
    click(chromium, "#turn-1 form button")
    second = find(chromium, "#turn-1 table", "continued").find_elements(By.CSS_SELECTOR, "tbody tr")[1]
    assert second.text.split()[1] in ("resolved", "unresolved", "empty_patch", "patch_invalid")
    assert find(chromium, "#turn-1 #new-1", "ls") and find(chromium, "#turn-1 #new-2")
