"""Benchmark of what open pages cost a run: iterations with three browsers that follow the run, and without.

    python bench/view_overhead.py [--rounds 3] [--check]

Each round makes the same small run of the recipe twice. During the second, three windows of Chromium on the same machine follow
it by `turnsmith view`. The order in which sandboxes answer changes what is sampled, so RL iterations of equal runs differ by some
percent. The table therefore also shows the processor time of server and windows: a share of what the machine has from the time
they have opened to the end of the run. `--check` exits with 1 if the median share of the server is above 2 %. Windows usually are
on another machine. Needs Chromium and the extra `dev`.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from turnsmith.runs.folder import RunFolder, read_json
from view import browse, serve

LIMIT, NUM_WINDOWS = 0.02, 3
SETTINGS = (
    "--train_tasks.practice_tasks 48 --eval_tasks.practice.practice_tasks 2 --eval_tasks.inflection null "
    "--stages.0.iterations 3 --stages.1.iterations 1 --rft.rollouts_per_task 4"
).split()
CONFIG = Path(__file__).parents[1] / "configs/laptop.toml"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    titles = ("without", "with", "ratio", "server", "windows")
    print(f"{'round':<8}" + "".join(f"{title:>10}" for title in titles))
    rounds = []
    for number in range(asked.rounds):
        with tempfile.TemporaryDirectory() as folder:
            without, watched = (
                measure(Path(folder) / name, num) for name, num in (("without", 0), ("with", NUM_WINDOWS))
            )
        rounds.append((watched.seconds / without.seconds, watched.server, watched.windows))
        ratio, server, windows = rounds[-1]
        row = f"{without.seconds:>8.1f} s{watched.seconds:>8.1f} s{ratio:>10.3f}{server:>10.2%}{windows:>10.2%}"
        print(f"{number + 1:<8}{row}", flush=True)
    ratios, servers, windows_ = zip(*rounds, strict=True)
    print(f"ratio: median {statistics.median(ratios):.3f}, all {min(ratios):.3f} to {max(ratios):.3f}")
    print(f"server: median {statistics.median(servers):.2%}; windows: median {statistics.median(windows_):.2%}")
    if asked.check and statistics.median(servers) > LIMIT:
        raise SystemExit(1)


@dataclass(frozen=True)
class Cost:
    """Seconds of a run's RL iterations, and shares of the machine's processor time that server and windows took."""

    seconds: float
    server: float = 0.0
    windows: float = 0.0


def measure(out: Path, num_windows: int) -> Cost:
    """Make a run while windows follow it; return its cost."""
    command = [sys.executable, "-m", "turnsmith", "run", str(CONFIG), *SETTINGS, "--out", str(out)]
    cost = Cost(0.0)
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process,
        ExitStack() as opened,
    ):
        while process.poll() is None and not (out / "config.json").exists():
            time.sleep(0.1)
        if num_windows and process.poll() is None:
            server, address = opened.enter_context(serve(out))
            for _ in range(num_windows):
                opened.enter_context(browse()).get(f"{address}#/run/{out.name}")
            started, names = time.monotonic(), (str(server.pid), "chrom")
            before = [read_cpu_s(name) for name in names]
            process.wait()
            available = (time.monotonic() - started) * len(os.sched_getaffinity(0))
            used = [read_cpu_s(name) - start for name, start in zip(names, before, strict=True)]
            cost = Cost(0.0, *(seconds / available for seconds in used))
        if process.wait():
            raise SystemExit(f"the run failed: {out}")
    return replace(cost, seconds=sum(read_seconds(RunFolder(out))))


def read_cpu_s(which: str) -> float:
    """Read the processor seconds of a process, given its number, or of all whose name begins like this."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has just ended
            number, _, rest = file.read_text().partition(" (")
            name, _, fields = rest.rpartition(") ")
            if which == number or name.startswith(which):
                ticks += sum(int(each) for each in fields.split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def read_seconds(run: RunFolder) -> list[float]:
    """Read the seconds of each RL iteration."""
    metrics = [read_json(file) for file in sorted(run.path.glob("stages/stage*/*/metrics.json"))]
    return [each["time/collect_s"] + each["time/train_s"] for each in metrics]


if __name__ == "__main__":
    main()
