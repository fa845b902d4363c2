"""Runs vLLM's own server with the arguments given, and ends it with whoever started it.

The process that was started only watches: when its standard input closes, since its parent has ended or wants no more, or when
the server ends, it kills all that belongs to them. vLLM itself leaves its engine processes behind when it is killed.
"""

import ctypes
import os
import select
import signal
import sys

PR_SET_PDEATHSIG = 1


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
    from vllm.entrypoints.launchers.api_server.entry import main

    main()


def watch(server: int) -> None:
    """Wait for the end of the server or of the input, then kill the whole process group, this process included."""
    ended = os.pidfd_open(server)
    select.select([ended, sys.stdin.fileno()], [], [])
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
