"""Processes and ports of this machine, as /proc shows them."""

import socket
import time
from pathlib import Path


def runs(process: int) -> bool:
    """Return True if a process runs and is not merely waiting to be collected by its parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def list_descendants(process: int) -> list[int]:
    """List the children of a process, their children, and so on."""
    files = Path(f"/proc/{process}/task").glob("*/children")
    children = [int(child) for file in files for child in file.read_text().split()]
    return [*children, *(below for child in children for below in list_descendants(child))]


def wait_for_end(processes: list[int], limit_s: float = 60.0) -> None:
    """Wait until none of the processes runs."""
    deadline = time.monotonic() + limit_s
    while left := [process for process in processes if runs(process)]:
        assert time.monotonic() < deadline, f"{left} still run"
        time.sleep(0.05)


def is_open(address: str) -> bool:
    """Return True if something accepts connections at `HOST:PORT`."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5.0).close()
    except OSError:
        return False
    return True
