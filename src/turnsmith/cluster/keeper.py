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
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

SET_CHILD_SUBREAPER = 36
"""Operation of Linux's prctl: orphaned descendants become children of this process."""

START_S = 900.0
"""Seconds that Ray's own processes get to start. `ray.init` gives up after 30, which is too little on a busy machine."""


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

    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        if "timed out during startup" not in str(error):
            raise
        connect_later(Path(options["_temp_dir"]))
    return str(ray.get_runtime_context().gcs_address)


def connect_later(folder: Path) -> None:
    """Connect to the Ray whose files are in `folder`, and whose processes still start. Raises its last error after `START_S`."""
    import ray

    [port] = folder.glob("session_latest/gcs_server_port_*")
    address, deadline = f"{ray.util.get_node_ip_address()}:{port.read_text().strip()}", time.monotonic() + START_S
    while not ray.is_initialized():
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(1.0)


def end_descendants() -> None:
    """Kill the children of this process until none is left; the children of a killed one become its own."""
    with suppress(ChildProcessError):
        while True:
            for child in list_children():
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def list_children() -> list[int]:
    """List the process ids of the children of this process."""
    files = Path("/proc/self/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


if __name__ == "__main__":
    main()
