"""Benchmark of trajectory files: write, read, pack and pass every column to the loss, compared with lists in JSON.

    python bench/records.py [--num 3000] [--tokens 65536] [--check]

A trajectory has 40 turns with 4 kB of text each, and the given number of tokens, an eighth of them sampled. Each side runs in
its own process, bound to one core. Version 0.1 wrote lists in JSON; the bench measures one trajectory in a hundred this way, and
scales seconds and bytes. `--check` exits with 1 if the current format takes more than 60 s, or more than 3 GB of memory.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from turnsmith.algo.packing import pack
from turnsmith.algo.tokens import LossTokens
from turnsmith.rollouts.samples import to_sample
from turnsmith.runs.journal import append_trajectory, read_trajectories
from turnsmith.types import MicroBatch, Outcome, StopReason, Trajectory, Turn

MAX_SECONDS, MAX_GB = 60.0, 3.0
PACK_TOKENS = 131_072
TURNS, TURN_TEXT = 40, "x" * 4_096
SCALE = 100
"""Number of trajectories for each one that is measured as lists in JSON."""


def make_trajectory(index: int, num_tokens: int) -> Trajectory:
    """Return an episode with random tokens and log-probs."""
    rng = np.random.default_rng(index)
    sampled = rng.random(num_tokens) < 1 / 8
    sampled[0] = False
    logprobs = np.where(sampled, -rng.exponential(0.3, num_tokens), 0).astype(np.float32)
    turn = Turn(start=0, end=0, text="", command="ls", observation=TURN_TEXT)
    return Trajectory(
        trajectory_id=f"stage1-0000/task-{index // 10}/{index % 10}", group_id=f"stage1-0000/task-{index // 10}",
        index=index % 10, instance_id=f"task-{index // 10}", iteration=0, seed=index,
        token_ids=rng.integers(0, 151_936, num_tokens, np.int32), sampled=sampled, logprobs=logprobs,
        turns=[turn] * TURNS, stop_reason=StopReason.SUBMITTED, outcome=Outcome.RESOLVED,
    )  # fmt: skip


def write_arrays(journal: Path, trajectory: Trajectory) -> None:
    append_trajectory(journal, trajectory)


def pack_arrays(journal: Path) -> list[MicroBatch]:
    return pack([to_sample(trajectory, 0.5) for trajectory in read_trajectories(journal)], PACK_TOKENS)


def write_lists(journal: Path, trajectory: Trajectory) -> None:
    columns = {name: column.tolist() for name, column in trajectory.arrays().items()}
    with journal.open("a") as file:
        file.write(json.dumps(trajectory.model_dump(mode="json") | columns) + "\n")


def pack_lists(journal: Path) -> list[MicroBatch]:
    return pack([to_sample(trajectory, 0.5) for trajectory in read_lists(journal)], PACK_TOKENS)


def read_lists(journal: Path) -> Iterator[Trajectory]:
    for line in journal.read_bytes().splitlines():
        yield Trajectory(**json.loads(line))


SIDES = {"arrays": (write_arrays, pack_arrays), "lists": (write_lists, pack_lists)}


def touch(batch: MicroBatch) -> int:
    """Read every column as a trainer does. Return the number of tokens."""
    LossTokens.of(batch)
    return len(np.concatenate([sample.token_ids for sample in batch.samples]))


def work(side: str, num: int, num_tokens: int, folder: Path) -> None:
    """Measure one side in this process, and print its figures as JSON."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    write, read_and_pack = SIDES[side]
    journal, write_s = folder / "trajectories.jsonl", 0.0
    for index in range(num):
        trajectory, started = make_trajectory(index, num_tokens), time.perf_counter()
        write(journal, trajectory)
        write_s += time.perf_counter() - started
    started = time.perf_counter()
    num_read = sum(map(touch, read_and_pack(journal)))
    read_s = time.perf_counter() - started
    assert num_read == num * num_tokens
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    disk_gb = sum(file.stat().st_size for file in folder.iterdir()) / 2**30
    print(json.dumps({"write_s": write_s, "read_s": read_s, "peak_gb": peak_gb, "disk_gb": disk_gb}))


def measure(side: str, num: int, num_tokens: int) -> dict[str, float]:
    """Measure one side in a new process and a new folder."""
    with tempfile.TemporaryDirectory(prefix="turnsmith-bench-") as folder:
        arguments = ["--num", str(num), "--tokens", str(num_tokens), "--side", side, "--folder", folder]
        done = subprocess.run([sys.executable, __file__, *arguments], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=3_000)
    parser.add_argument("--tokens", type=int, default=65_536)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        work(arguments.side, arguments.num, arguments.tokens, arguments.folder)
        return
    ours = measure("arrays", arguments.num, arguments.tokens)
    num_lists = max(1, arguments.num // SCALE)
    theirs = measure("lists", num_lists, arguments.tokens)
    scale = arguments.num / num_lists
    print(f"{arguments.num} trajectories of {arguments.tokens} tokens, one core")
    print(f"{'':16}{'write s':>10}{'read+pack s':>13}{'in all s':>10}{'disk GB':>10}{'peak GB':>10}")
    print_row("arrays", ours, 1.0)
    print_row(f"lists, ×{scale:.0f}", theirs, scale)
    seconds = ours["write_s"] + ours["read_s"]
    print(f"lists take {scale * (theirs['write_s'] + theirs['read_s']) / seconds:.1f} times as long")
    if arguments.check and (seconds > MAX_SECONDS or ours["peak_gb"] > MAX_GB):
        sys.exit(f"missed: more than {MAX_SECONDS:.0f} s or {MAX_GB:.0f} GB")


def print_row(name: str, figures: dict[str, float], scale: float) -> None:
    """Print one row: seconds and bytes on disk are scaled, peak memory is not."""
    write_s, read_s, disk_gb = (scale * figures[name] for name in ("write_s", "read_s", "disk_gb"))
    print(f"{name:16}{write_s:10.1f}{read_s:13.1f}{write_s + read_s:10.1f}{disk_gb:10.2f}{figures['peak_gb']:10.2f}")


if __name__ == "__main__":
    main()
