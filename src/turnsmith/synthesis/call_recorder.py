"""Pytest plugin for sandboxes that writes the source lines of all called functions to a file.

The plugin imports only the standard library. It cannot record calls in child processes, so the result is marked as incomplete
if a test starts a process.
"""

import json
import os
import sys
import threading
from types import CodeType, FrameType
from typing import Any

TREE, ANSWER = f"{os.getcwd()}{os.sep}", os.path.abspath(os.environ["TURNSMITH_CALLS"])  # noqa: PTH100, PTH109
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"}
"""Audit events of Python for the start of a process; a record with such an event is marked as incomplete."""
called: dict[int, CodeType] = {}
starts: list[str] = []


def note_call(frame: FrameType, event: str, _: Any) -> None:
    """Profile hook: record each function that a test file calls, to select the test files that can detect a bug."""
    if event == "call":
        called[id(frame.f_code)] = frame.f_code


def note_start(event: str, _: Any) -> None:
    if event in STARTS:
        starts.append(event)


def pytest_unconfigure() -> None:
    is_whole = sys.getprofile() is note_call and not starts
    sys.setprofile(None)
    lines: dict[str, set[int]] = {}
    for code in called.values():
        path = os.path.abspath(code.co_filename)  # noqa: PTH100
        if path.startswith(TREE):
            lines.setdefault(path.removeprefix(TREE), set()).update(line for *_, line in code.co_lines() if line)
    answer = {"is_whole": is_whole, "lines": {path: sorted(each) for path, each in lines.items()}}
    with open(ANSWER, "w") as file:  # noqa: PTH123
        json.dump(answer, file)


sys.addaudithook(note_start)
threading.setprofile(note_call)
sys.setprofile(note_call)
