"""Processes on this machine, as the host of a sandbox sees them."""

import asyncio
import subprocess
import time
from pathlib import Path


def processes_named(command):
    """Return the host process ids with a command line."""
    found = subprocess.run(["pgrep", "-f", "-x", command], capture_output=True, text=True, check=False)
    return found.stdout.split()


def ancestor_in_sandbox(pid):
    """Return the host id of process 1 in the namespace of a process."""
    while pid:
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if status["NSpid"].split()[-1] == "1":
            return pid
        pid = int(status["PPid"])
    raise AssertionError("not in a sandbox")


def descendants(pid):
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children] + [pid for child in children for pid in descendants(int(child))]


def is_alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(condition, limit_s=60.0):
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def wait_for(condition):
    """Wait like `wait_until` without blocking the event loop."""
    await asyncio.wait_for(_poll(condition), 60)


async def _poll(condition):
    while not condition():
        await asyncio.sleep(0.01)
