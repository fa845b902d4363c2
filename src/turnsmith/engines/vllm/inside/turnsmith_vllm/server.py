"""Runs vLLM's own server with the arguments given, and ends it with whoever started it.

The process that was started only watches: when its standard input closes, since its parent has ended or wants no more, or when
the server ends, it kills all that belongs to them. vLLM itself leaves its engine processes behind when it is killed.
"""

import ctypes
import os
import select
import signal
import sys
from functools import partialmethod
from typing import Any

PR_SET_PDEATHSIG = 1
GRACE_S = 5
"""What requests may take that still run when the engine is dead: one that waits for the engine would wait for good."""


def main() -> None:
    watcher = os.getpid()
    server = os.fork()
    if server == 0:
        die_with(watcher)
        serve()
        os._exit(0)
    watch(server)


def die_with(parent: int) -> None:
    """End when the parent does, which may already have happened."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def serve() -> None:
    """What `vllm serve` does; that command itself asks for a distribution called vllm, which the one for CPUs is not."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, sys.stdin.fileno())
    import uvicorn
    from vllm.entrypoints.launchers.api_server.entry import main

    # vLLM has no argument for it.
    config: Any = uvicorn.Config
    config.__init__ = partialmethod(config.__init__, timeout_graceful_shutdown=GRACE_S)
    main()


def watch(server: int) -> None:
    """Wait for the end of the server or of the input, then kill the whole process group, this process included."""
    ended = os.pidfd_open(server)
    select.select([ended, sys.stdin.fileno()], [], [])
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
