"""Start and end of processes that run code of `sandboxes.inside`; threads that even a cancelled caller waits for."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import turnsmith
from turnsmith.sandboxes.inside.toolbox import INTERPRETER, interpreter_arguments

END_TIMEOUT_S = 10.0
"""Seconds that a helper process gets to exit after its socket was closed."""

T = TypeVar("T")


def run_inside(
    module: str, *arguments: str, kind: int = socket.SOCK_STREAM
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a module of `sandboxes.inside` in a new session; return the process and the host's end of its stdin socket."""
    ours, theirs = socket.socketpair(type=kind)
    with theirs:
        process = subprocess.Popen(
            [*interpreter_arguments(sys._base_executable, module), *arguments],  # type: ignore[attr-defined]
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,  # forked tests must not see a terminal
            env=INTERPRETER,
            cwd=Path(turnsmith.__file__).parent.parent,
            start_new_session=True,
        )
    return process, ours


def wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process exits after its socket was closed; kill the process after END_TIMEOUT_S."""
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def finish_in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a thread and return its result. Even a cancelled caller waits until the thread has finished."""
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait([working])
        working.exception()  # mark the exception as retrieved
