"""Process that keeps a local Ray, and ends all of Ray's processes when the process that started it ends.

Ray's own daemons can outlive a killed driver by a minute. This process adopts them (`PR_SET_CHILD_SUBREAPER`), so it finds
and kills them all. It learns that its starter has ended because its standard input closes.
"""

import ctypes
import json
import logging
import os
import shutil
import signal
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

SET_CHILD_SUBREAPER = 36
"""Operation of Linux's prctl: orphaned descendants become children of this process."""

MAX_ATTEMPTS = 6
"""Number of attempts to start Ray, which gives its own processes only 15 to 30 seconds: too little on a busy machine."""


def main() -> None:
    """Start Ray with the options in the first line of standard input, print its address, and wait for the end of input."""
    options = json.loads(sys.stdin.readline())
    folder = Path(options["_temp_dir"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The starter may also end while Ray starts.
    watcher = threading.Thread(target=wait_for_starter, args=(folder,))
    watcher.start()
    try:
        print(start(options), flush=True)
    except Exception:
        traceback.print_exc()
        end(folder)
    watcher.join()


def wait_for_starter(folder: Path) -> None:
    """Wait until the process that started this one ends, then end Ray."""
    sys.stdin.read()
    end(folder)


def end(folder: Path) -> None:
    """Kill all descendants, remove Ray's files, and end this process."""
    end_descendants()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)  # Ray's exit handlers would wait for the processes that were just killed.


def start(options: dict[str, Any]) -> str:
    """Start a local Ray with options of `ray.init`; return its address `HOST:PORT`."""
    import ray

    for attempts_left in reversed(range(MAX_ATTEMPTS)):
        try:
            ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **options)
            break
        except Exception as error:
            if not attempts_left or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
            end_descendants()
    return str(ray.get_runtime_context().gcs_address)


def end_descendants() -> None:
    """Kill the children of this process until none is left; the children of a killed one become its own."""
    with suppress(ChildProcessError):
        while True:
            for child in list_children():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def list_children() -> list[int]:
    """List the process ids of the children of this process. Threads may end meanwhile."""
    children = list[int]()
    for file in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            children += map(int, file.read_text().split())
    return children


if __name__ == "__main__":
    main()
