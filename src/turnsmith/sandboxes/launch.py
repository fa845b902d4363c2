"""Work beside the event loop: processes on the sandbox's side, and threads that must come to their end."""

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
"""How long a process may take to end once its socket is closed."""

T = TypeVar("T")


def run_inside(
    module: str, *arguments: str, kind: int = socket.SOCK_STREAM
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a module of `inside` in a session of its own; returns it, and our end of the socket that is its input.

    Its variables are those that every interpreter in a sandbox has.
    """
    ours, theirs = socket.socketpair(type=kind)
    with theirs:
        process = subprocess.Popen(
            [*interpreter_arguments(sys._base_executable, module), *arguments],  # type: ignore[attr-defined]
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,  # what it forks for tests must not take its output for a terminal
            env=INTERPRETER,
            cwd=Path(turnsmith.__file__).parent.parent,
            start_new_session=True,
        )
    return process, ours


def wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process whose socket was closed."""
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def finish_in_thread(work: Callable[[], T]) -> T:
    """What the work returns; who is cancelled meanwhile still waits for its end, since no thread can be interrupted."""
    working = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    finally:
        await asyncio.wait([working])
        working.exception()  # looked at, also where nobody asks any longer
