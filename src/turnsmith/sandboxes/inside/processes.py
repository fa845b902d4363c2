"""Who runs in this sandbox, what they use, and how to end them: always the descendants of the supervisor."""

# ruff: noqa: PTH123, PTH208

import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    session: int
    is_dead: bool
    """A zombie that waits to be reaped."""


def living_descendants() -> list[Process]:
    """Every process below this one. Orphans come back to the supervisor, so nothing escapes by a double fork."""
    processes = {process.pid: process for process in _all_processes()}
    below = {os.getpid()}
    found: list[Process] = []
    frontier = [os.getpid()]
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    while frontier:
        for process in children.get(frontier.pop(), []):
            if process.pid not in below:
                below.add(process.pid)
                frontier.append(process.pid)
                found.append(process)
    return [process for process in found if not process.is_dead]


def _all_processes() -> list[Process]:
    found = (_read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def _read_process(pid: int) -> Process | None:
    try:
        stat = _content(f"/proc/{pid}/stat")
    except OSError:
        return None  # ended since it was listed
    state, parent, _, session = stat[stat.rindex(b")") + 2 :].split(b" ", 4)[:4]
    return Process(pid, int(parent), int(session), state in b"ZX")


def end_all(spared_sessions: Collection[int] = ()) -> None:
    """Kill every process of the sandbox but those of the spared sessions, and those that they start meanwhile."""
    if os.getpid() == 1 and not spared_sessions:
        _signal(-1)  # one step for the kernel: no fork can slip through
        return
    while doomed := [p.pid for p in living_descendants() if p.session not in spared_sessions]:
        for pid in doomed:
            _signal(pid)
        time.sleep(0.001)


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # ended already; or, outside a namespace, became another user's


def uses_more_than(limit_bytes: int, processes: list[Process]) -> bool:
    """Whether their memory passes the limit; counted exactly only where the quick count, shared pages twice, does."""
    pids = [process.pid for process in processes]
    return sum(map(_resident_bytes, pids)) > limit_bytes and sum(map(_proportional_bytes, pids)) > limit_bytes


def _resident_bytes(pid: int) -> int:
    try:
        return int(_content(f"/proc/{pid}/statm").split()[1]) * PAGE_BYTES
    except OSError:
        return 0


def _proportional_bytes(pid: int) -> int:
    """Anonymous and shared memory, each page divided among those who map it; files of the disk cost nothing."""
    try:
        lines = _content(f"/proc/{pid}/smaps_rollup").splitlines()
    except PermissionError:
        return _resident_bytes(pid)  # a process that hides its maps is charged in full
    except OSError:
        return 0
    fields = dict(line.split(b":", 1) for line in lines[1:])
    return sum(int(fields[name].split()[0]) * 1024 for name in (b"Pss_Anon", b"Pss_Shmem") if name in fields)


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
