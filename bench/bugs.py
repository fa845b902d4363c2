"""Benchmark of task making: time to make and qualify tasks of several packages, and yield of each mutator.

    python bench/bugs.py [--num 160] [--workers 2] [--out DIR] [--check] [name==version …]

The packages come from the package index. With an existing `--out`, the bench continues there and times only the rest. `--check`
exits with 1 if

- fewer than 1,500 tasks, or tasks of fewer than 8 packages, are qualified,
- fewer than 13 mutators have a qualified task,
- the run took more than 30 minutes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from turnsmith.runs.folder import read_json
from turnsmith.synthesis.making import MAKING
from turnsmith.tasks.dataset import load_tasks

PACKAGES = (
    "cachetools==5.5.0", "idna==3.10", "jmespath==1.0.1", "parse==1.20.2", "pathspec==0.12.1", "semver==3.0.2",
    "toolz==1.0.0", "wcwidth==0.2.13", "xmltodict==0.14.2",
)  # fmt: skip
"""Packages with test files that take less than half a second each."""
REPEATS = 2
"""Test runs per tree in qualification. Three would take over 20 minutes on two cores."""
MIN_TASKS, MIN_PACKAGES, MIN_MUTATORS, MAX_S = 1_500, 8, 13, 1_800.0


def run(*arguments: str) -> float:
    """Run a `turnsmith tasks` command. Return its seconds; raise CalledProcessError if it fails."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "turnsmith", "tasks", *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def measure(packages: list[str], num: int, workers: int, out: Path) -> dict[str, float]:
    """Make and qualify tasks. Return the seconds of each command."""
    named = [word for package in packages for word in ("--package", package)]
    made_s = run("make", *named, "--num", str(num), "--workers", str(workers), "--out", str(out))
    return {
        "make_s": made_s,
        "qualify_s": run("qualify", str(out), "--workers", str(workers), "--repeats", str(REPEATS)),
    }


def report(out: Path, seconds: dict[str, float]) -> list[str]:
    """Print the yield of each mutator and the totals. Return the figures that miss their requirement."""
    tasks = {task.instance_id: task for task in load_tasks(out)}
    records = [json.loads(line) for line in (out / "qualification.jsonl").read_text().splitlines()]
    verdicts = {record["instance_id"]: record["verdict"] for record in records}
    fit = [task for name, task in tasks.items() if verdicts.get(name) == "qualified"]
    mutators = Counter(task.meta["mutator"] for task in fit)
    print(f"{'mutator':24}{'tried':>8}{'kept':>8}{'share':>9}{'qualified':>11}")
    for name, counts in read_json(out / MAKING)["mutators"].items():
        share = counts["kept"] / counts["tried"]
        print(f"{name:24}{counts['tried']:8}{counts['kept']:8}{share:9.0%}{mutators[name]:11}")
    total_s, num_packages = sum(seconds.values()), len({task.repo for task in fit})
    print(f"{len(tasks)} tasks, {len(fit)} qualified, of {num_packages} packages; {dict(Counter(verdicts.values()))}")
    print(
        f"made in {seconds['make_s']:.0f} s, qualified in {seconds['qualify_s']:.0f} s, {total_s / 60:.1f} min in all"
    )
    num_single = sum(not name.startswith("combine_") for name in mutators)
    short = {
        f"{len(fit)} qualified tasks": len(fit) < MIN_TASKS,
        f"{num_packages} packages": num_packages < MIN_PACKAGES,
        f"{num_single} mutators": num_single < MIN_MUTATORS,
        f"{total_s:.0f} s": total_s > MAX_S,
    }
    return [figure for figure, is_short in short.items() if is_short]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", default=[*PACKAGES])
    parser.add_argument("--num", type=int, default=177, help="tasks of each package")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turnsmith-bench-") as folder:
        out = arguments.out or Path(folder, "tasks")
        seconds = measure(arguments.packages, arguments.num, arguments.workers, out)
        short = report(out, seconds)
    if arguments.check and short:
        sys.exit(f"missed: {', '.join(short)}")


if __name__ == "__main__":
    main()
