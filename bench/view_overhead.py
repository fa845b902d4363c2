"""Benchmark of what open pages cost a run: iterations with three browsers that follow the run, and without.

    python bench/view_overhead.py [--rounds 3] [--check]

Each round makes the same small run of the recipe twice. During the second, three windows of Chromium on the same machine follow
it by `turnsmith view`. Both runs have the same seed. The table compares the seconds of all RL iterations of a round. `--check`
exits with 1 if the median ratio of the rounds is above 1.02. Needs Chromium and the extra `dev`.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from turnsmith.runs.folder import RunFolder, read_json
from view import browse, serve

LIMIT, NUM_WINDOWS = 1.02, 3
CONFIG = (
    "configs/laptop.toml --train_tasks.practice_tasks 48 --eval_tasks.practice.practice_tasks 2 --eval_tasks.inflection null "
    "--stages.0.iterations 3 --stages.1.iterations 1 --rft.rollouts_per_task 4"
).split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    print(f"{'round':<8}{'without':>12}{'with':>12}{'ratio':>10}")
    ratios = []
    for number in range(asked.rounds):
        with tempfile.TemporaryDirectory() as folder:
            without, watched = (
                measure(Path(folder) / name, num) for name, num in (("without", 0), ("with", NUM_WINDOWS))
            )
        ratios.append(watched / without)
        print(f"{number + 1:<8}{without:>10.1f} s{watched:>10.1f} s{ratios[-1]:>10.3f}", flush=True)
    print(f"median ratio {statistics.median(ratios):.3f}, limit {LIMIT}; all: {min(ratios):.3f} to {max(ratios):.3f}")
    if asked.check and statistics.median(ratios) > LIMIT:
        raise SystemExit(1)


def measure(out: Path, num_windows: int) -> float:
    """Make a run while windows follow it; return the seconds of its RL iterations."""
    command = [sys.executable, "-m", "turnsmith", "run", *CONFIG, "--out", str(out)]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process,
        ExitStack() as opened,
    ):
        while not (out / "config.json").exists():
            time.sleep(0.1)
        if num_windows:
            _, address = opened.enter_context(serve(out))
            for _ in range(num_windows):
                opened.enter_context(browse()).get(f"{address}#/run/{out.name}")
        if process.wait():
            raise SystemExit(f"the run failed: {out}")
    return sum(read_seconds(RunFolder(out)))


def read_seconds(run: RunFolder) -> list[float]:
    """Read the seconds of each RL iteration."""
    metrics = [read_json(file) for file in sorted(run.path.glob("stages/stage*/*/metrics.json"))]
    return [each["time/collect_s"] + each["time/train_s"] for each in metrics]


if __name__ == "__main__":
    main()
