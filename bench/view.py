"""Benchmark of the pages of a run, in Chromium, and of its report.

    python bench/view.py RUN [--num 50000] [--check]

RUN is a finished run of the demo, of which a report is made and opened. Then a run of RL with `--num` trajectories of 40 turns is
generated; its texts are pieces of Turnsmith's source code. One trajectory of 131,072 tokens is added. A new server shows this
run. Seconds of a page count from the request to the moment at which its first heading or turn is drawn. Memory is the
largest resident size of the process. `--check` exits with 1 if a figure exceeds its limit. Needs Chromium and the extra `dev`.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

import turnsmith
from turnsmith.config import RunConfig
from turnsmith.runs.folder import RunFolder, claim, write_json
from turnsmith.runs.journal import append_trajectory
from turnsmith.types import Outcome, StopReason, Trajectory, Turn

NUM_ITERATIONS, GROUP_SIZE, NUM_TURNS, TURN_CHARS = 10, 10, 40, 1_200
LONG = 131_072
"""Number of tokens of the longest trajectory."""
MB = 10**6
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""Program that runs a command and prints the largest resident size of that process in KiB."""


@dataclass(frozen=True)
class Figure:
    """One measured figure and its limit."""

    name: str
    value: float
    limit: float
    unit: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--num", type=int, default=50_000)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, browse() as browser:
        figures = [*measure_demo(asked.run, Path(folder), browser), *measure_large(asked.num, Path(folder), browser)]
    print_table(figures)
    if asked.check and any(figure.value > figure.limit for figure in figures):
        raise SystemExit(1)


def measure_demo(run: Path, folder: Path, browser: Chrome) -> Iterator[Figure]:
    """Make the report of a demo run, and open it."""
    file = folder / "demo.html"
    make_report(run, file)
    yield Figure("demo report: size", file.stat().st_size / MB, 3.0, "MB")
    seconds = open_page(browser, f"file://{file}#/run/{run.resolve().name}", "h2")
    yield Figure("demo report: time to open", seconds, 1.0, "s")


def measure_large(num: int, folder: Path, browser: Chrome) -> Iterator[Figure]:
    """Generate a large run; open its overview and its longest trajectory, and make its report."""
    run = RunFolder(folder / "large")
    started = time.perf_counter()
    start = generate(run, num)
    size = sum(file.stat().st_size for file in run.path.rglob("*.jsonl"))
    print(f"{num:,} trajectories of {size / 1e9:.1f} GB were generated in {time.perf_counter() - started:.0f} s")
    with serve(run.path) as (process, address):
        yield Figure("large run: overview", open_page(browser, f"{address}#/run/large", "h2"), 2.0, "s")
        yield Figure("large run: memory of the server", find_peak(process.pid), 300.0, "MB")
        open_page(browser, f"{address}#/trajectories/large", "tbody a")  # reads all journals once
        page = f"{address}#/trajectory/large/stages%2Fstage1%2Fiteration-0000/{start}"
        yield Figure("large run: trajectory of 131k tokens", open_page(browser, page, ".turn"), 0.5, "s")
        print(f"memory of the server after all journals were read: {find_peak(process.pid):.0f} MB")
    file, started = folder / "large.html", time.perf_counter()
    peak = make_report(run.path, file)
    yield Figure("large run: time of the report", time.perf_counter() - started, 60.0, "s")
    yield Figure("large run: size of the report", file.stat().st_size / MB, 20.0, "MB")
    yield Figure("large run: memory of the report", peak, 1_000.0, "MB")


def generate(run: RunFolder, num: int) -> int:
    """Write a run of one RL stage with `num` trajectories and a long one; return the position of the long one."""
    config = RunConfig.model_validate({"train_tasks": {"practice_tasks": 4}, "stages": [{"name": "stage1"}]})
    claim(run, config.model_dump(mode="json"))
    words = "".join(file.read_text() for file in sorted(Path(turnsmith.__file__).parent.rglob("*.py")))
    rng = random.Random(0)
    for index in range(num):
        number = index * NUM_ITERATIONS // num
        append_trajectory(run.iteration("stage1", number).trajectories, make_trajectory(index, number, words, rng))
    for number in range(NUM_ITERATIONS):
        write_json(
            run.iteration("stage1", number).metrics, {"rollouts/resolved_rate": 0.5, "rollouts/collected": num // 10}
        )
    journal = run.iteration("stage1", 0).trajectories
    start = journal.stat().st_size
    append_trajectory(journal, make_trajectory(num, 0, words, rng, num_tokens=LONG, chars=2 * LONG // NUM_TURNS))
    return start


def make_trajectory(
    index: int, iteration: int, words: str, rng: random.Random, num_tokens: int = 4_000, chars: int = TURN_CHARS
) -> Trajectory:
    """Make a trajectory whose turns have random pieces of `words`."""
    task, each = f"task-{index // GROUP_SIZE}", num_tokens // NUM_TURNS
    turns = [make_turn(each * at, each, chars, words, rng) for at in range(NUM_TURNS)]
    is_resolved = rng.random() < 0.5
    return Trajectory(
        trajectory_id=f"stage1-{iteration:04d}/{task}/{index % GROUP_SIZE}", group_id=f"stage1-{iteration:04d}/{task}",
        index=index % GROUP_SIZE, instance_id=task, iteration=iteration, seed=index,
        token_ids=np.full(num_tokens, 7, np.int32), sampled=np.zeros(num_tokens, bool), logprobs=np.zeros(num_tokens, np.float32),
        turns=turns, stop_reason=StopReason.SUBMITTED, outcome=Outcome.RESOLVED if is_resolved else Outcome.UNRESOLVED,
        patch=draw(words, 2_000, rng), duration_s=rng.expovariate(0.01),
    )  # fmt: skip


def make_turn(start: int, num_tokens: int, chars: int, words: str, rng: random.Random) -> Turn:
    """Make a turn of which a quarter was sampled, and the rest is the observation."""
    text, seen = draw(words, chars // 4, rng), draw(words, chars, rng)
    return Turn(start=start, end=start + num_tokens // 4, text=text, command="ls", observation=seen)


def draw(words: str, size: int, rng: random.Random) -> str:
    """Draw a piece of a text."""
    start = rng.randrange(len(words) - size)
    return words[start : start + size]


@contextmanager
def browse() -> Iterator[Chrome]:
    """Start Chromium without a window."""
    options = ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,800"):
        options.add_argument(argument)
    browser = Chrome(options=options, service=ChromeService("/usr/bin/chromedriver"))
    browser.set_script_timeout(120)
    try:
        yield browser
    finally:
        browser.quit()


@contextmanager
def serve(run: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start `turnsmith view` on a free port; yield the process and the address."""
    command = [sys.executable, "-u", "-m", "turnsmith", "view", str(run), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        found = re.search(r"http://[\w.:/-]+", process.stdout.readline())
        assert found
        try:
            yield process, found[0]
        finally:
            process.terminate()


def open_page(browser: Chrome, address: str, selector: str) -> float:
    """Open a page; return the seconds until an element that matches the selector is drawn."""
    browser.get("about:blank")
    started = time.perf_counter()
    browser.get(address)
    browser.execute_async_script(
        "const [selector, done] = arguments; const look = () => requestAnimationFrame(() => "
        "document.querySelector('main ' + selector) ? setTimeout(done) : look()); look();",
        selector,
    )
    return time.perf_counter() - started


def make_report(run: Path, file: Path) -> float:
    """Write a report in a new process; return its largest resident size in MB."""
    command = [sys.executable, "-m", "turnsmith", "report", str(run), "--out", str(file)]
    done = subprocess.run([sys.executable, "-c", MEASURE, *command], check=True, stdout=subprocess.PIPE, text=True)
    return int(done.stdout) * 1024 / MB


def find_peak(pid: int) -> float:
    """Return the largest resident size of a process in MB."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024 / MB


def print_table(figures: list[Figure]) -> None:
    """Print the figures beside their limits."""
    print(f"\n{'figure':<40}{'measured':>12}{'limit':>10}")
    for figure in figures:
        mark = "" if figure.value <= figure.limit else "  missed"
        print(f"{figure.name:<40}{figure.value:>9.2f} {figure.unit:<2}{figure.limit:>7,.1f} {figure.unit}{mark}")


if __name__ == "__main__":
    main()
