"""Who runs in this sandbox, what they use, and how to end them: always the descendants of the supervisor."""

# ruff: noqa: PTH123, PTH208

import os
import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

MAX_SWEEPS = 200
"""Times that processes are looked for and killed one by one."""


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    session: int
    is_dead: bool
    """A zombie that waits to be reaped."""


def living_descendants() -> list[Process]:
    """Every process below this one. Orphans come back to the supervisor, so nothing escapes by a double fork."""
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
        return None  # ended since it was listed
    state, parent, _, session = stat[stat.rindex(b")") + 2 :].split(b" ", 4)[:4]
    return Process(pid, int(parent), int(session), state in b"ZX")


def end_all(spared_sessions: Collection[int] = ()) -> None:
    """Kill every process of the sandbox but those of the spared sessions, and those that they start meanwhile."""
    if os.getpid() == 1 and not spared_sessions:
        _signal(-1)  # one step for the kernel: no fork can slip through
        return
    for _ in range(MAX_SWEEPS):
        doomed = [process.pid for process in living_descendants() if process.session not in spared_sessions]
        if not doomed:
            return
        for pid in doomed:
            _signal(pid)
        time.sleep(0.001)
    if os.getpid() == 1:
        _signal(-1)  # they multiply faster than we count: nobody can be spared


def bury_all() -> Iterator[tuple[int, int]]:
    """End every process and wait until none is left: process ids of children and adopted, with their statuses."""
    while True:
        end_all()  # again and again: who multiplies may have outrun it
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
    """What the kernel says of a process. Raises OSError where it has ended, be it while we looked."""
    with open(path, "rb") as file:
        content = file.read()
    if not content:
        raise ProcessLookupError(path)
    return content
