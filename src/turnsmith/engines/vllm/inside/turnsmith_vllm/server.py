"""Launcher of vLLM's server, which ends with its parent.

The started process only watches. It kills the process group when its standard input closes (the parent ended or wants
no more) or the server ends. A killed vLLM leaves its engine processes behind.
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
"""Seconds for running requests after the engine died; without a limit they would wait forever."""


def main() -> None:
    watcher = os.getpid()
    server = os.fork()
    if server == 0:
        die_with(watcher)
        serve()
        os._exit(0)
    watch(server)


def die_with(parent: int) -> None:
    """End when the parent does, even if it has already ended."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def serve() -> None:
    """Run the server as `vllm serve` does; that command fails for the CPU build, whose distribution has another name."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, sys.stdin.fileno())
    import uvicorn
    from vllm.entrypoints.launchers.api_server.entry import main

    # vLLM has no argument for this.
    config: Any = uvicorn.Config
    config.__init__ = partialmethod(config.__init__, timeout_graceful_shutdown=GRACE_S)
    main()


def watch(server: int) -> None:
    """Wait for the server or the input to end, then kill the whole process group, including this process."""
    ended = os.pidfd_open(server)
    select.select([ended, sys.stdin.fileno()], [], [])
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
