"""Runs in processes of their own that tests kill: parts of their configuration, start, and waiting for trajectories."""

import subprocess
import sys
import time
from pathlib import Path

SMALL_AGENT = """
[agent]
prompts = "brief"
max_turns = 8
max_context = 1280
max_new_tokens = 96
window_lines = 10
max_observation_tokens = 320
"""


def start_turnsmith(*arguments: object) -> "subprocess.Popen[str]":
    """Start a command of Turnsmith in a new process, whose output is piped."""
    command = [sys.executable, "-m", "turnsmith", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_trajectories(process: "subprocess.Popen[str]", iteration: Path, count: int) -> None:
    """Wait until an iteration has this number of trajectories. Fails if the process ends earlier."""
    while count_lines(iteration / "trajectories.jsonl") < count:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.02)


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0
