"""Listing, killing and memory use of a sandbox's processes, which are the descendants of the supervisor."""

# ruff: noqa: PTH123, PTH208

import os
import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

MAX_SWEEPS = 200
"""Maximum number of rounds that list the remaining processes and kill them."""


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    session: int
    is_dead: bool
    """True if the process is a zombie."""


def living_descendants() -> list[Process]:
    """List all living descendants of this process, including those whose parents have ended."""
    children: dict[int, list[Process]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        if process := _read_process(int(name)):
            children.setdefault(process.parent, []).append(process)
    found, frontier = [], [os.getpid()]
    while frontier:
        below = children.pop(frontier.pop(), [])
        found.extend(below)
        frontier.extend(process.pid for process in below)
    return [process for process in found if not process.is_dead]


def _read_process(pid: int) -> Process | None:
    try:
        stat = _content(f"/proc/{pid}/stat")
    except OSError:
        return None  # ended since the listing
    state, parent, _, session = stat[stat.rindex(b")") + 2 :].split(b" ", 4)[:4]
    return Process(pid, int(parent), int(session), state in b"ZX")


def end_all(spared_sessions: Collection[int] = ()) -> None:
    """Kill all processes of the sandbox, also those started meanwhile; spare those of the given sessions."""
    if os.getpid() == 1 and not spared_sessions:
        _signal(-1)  # atomic in the kernel: no fork can escape
        return
    for _ in range(MAX_SWEEPS):
        remaining = [process.pid for process in living_descendants() if process.session not in spared_sessions]
        if not remaining:
            return
        for pid in remaining:
            _signal(pid)
        time.sleep(0.001)
    if os.getpid() == 1:
        _signal(-1)  # a fork bomb outruns the listing: spare no session


def kill_and_reap_all() -> Iterator[tuple[int, int]]:
    """Kill all processes of the sandbox and wait for them; yield the id and the wait status of each child."""
    while True:
        end_all()  # repeated, since a fork bomb may escape one round
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid:
            yield pid, status
        else:
            time.sleep(0.0002)


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # already ended; or, outside a namespace, owned by another user


def uses_more_than(limit_bytes: int, processes: list[Process]) -> bool:
    """Return True if processes together use more memory than the limit. Exact sizes are read only if resident sizes exceed it."""
    pids = [process.pid for process in processes]
    return sum(map(_resident_bytes, pids)) > limit_bytes and sum(map(_proportional_bytes, pids)) > limit_bytes


def _resident_bytes(pid: int) -> int:
    try:
        return int(_content(f"/proc/{pid}/statm").split()[1]) * PAGE_BYTES
    except OSError:
        return 0


def _proportional_bytes(pid: int) -> int:
    """Return a process's share of anonymous and shared memory in bytes: a page that n processes use counts 1/n."""
    try:
        lines = _content(f"/proc/{pid}/smaps_rollup").splitlines()
    except PermissionError:
        return _resident_bytes(pid)  # a process that hides its maps is charged in full
    except OSError:
        return 0
    fields = dict(line.split(b":", 1) for line in lines[1:])
    return sum(int(fields[name].split()[0]) * 1024 for name in (b"Pss_Anon", b"Pss_Shmem") if name in fields)


def _content(path: str) -> bytes:
    """Read a /proc file. Raises OSError if the process has ended, even during the read."""
    with open(path, "rb") as file:
        content = file.read()
    if not content:
        raise ProcessLookupError(path)
    return content
