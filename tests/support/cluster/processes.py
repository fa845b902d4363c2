"""Processes and ports of this machine, as /proc shows them."""

import socket
import time
from contextlib import suppress
from pathlib import Path

LISTENS = "0A"
"""State of a listening socket in /proc/net/tcp."""


def runs(process: int) -> bool:
    """Return True if a process runs and is not merely waiting to be collected by its parent."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def read_name(process: int) -> str:
    """Read the name of a process."""
    return Path(f"/proc/{process}/comm").read_text().strip()


def read_command(process: int) -> str:
    """Read the command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def list_descendants(process: int) -> list[int]:
    """List the children of a process, their children, and so on. Threads and processes may end meanwhile."""
    children = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            children += map(int, file.read_text().split())
    return [*children, *(below for child in children for below in list_descendants(child))]


def wait_for_end(processes: list[int], limit_s: float = 60.0) -> None:
    """Wait until none of the processes runs."""
    deadline = time.monotonic() + limit_s
    while left := [process for process in processes if runs(process)]:
        assert time.monotonic() < deadline, f"{left} still run"
        time.sleep(0.05)


def list_ports(processes: list[int] | None = None) -> set[int]:
    """List the TCP ports at which processes listen, by default any process of this machine."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    ports = {f"socket:[{row[9]}]": int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == LISTENS}
    if processes is None:
        return set(ports.values())
    return {ports[link] for process in processes for link in list_files(process) if link in ports}


def list_files(process: int) -> list[str]:
    """List the open files of a process, as /proc names them."""
    links = []
    for file in Path(f"/proc/{process}/fd").glob("*"):
        with suppress(FileNotFoundError):
            links.append(str(file.readlink()))
    return links


def is_open(address: str) -> bool:
    """Return True if something accepts connections at `HOST:PORT`."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5.0).close()
    except OSError:
        return False
    return True
