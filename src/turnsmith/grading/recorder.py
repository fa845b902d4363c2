"""Test file that records a test run: prints which code opened which file of the tree, and the imported modules.

It runs before the other tests, on the suite's Python, and imports no module of Turnsmith. Before Python 3.8 there are no
audit hooks, and nothing is recorded.
"""

import json
import os
import re
import sys
from typing import Any

MARK, PLACE = "<mark>", "<place>"
"""Placeholders, replaced before the run: random mark of the printed line, and path of this file in the tree."""
ROOT = os.path.abspath(__file__)[: -len(PLACE)]  # noqa: PTH100
CODE = (".py", ".pyc", ".pyi", ".so")
"""Suffixes of code files; opening them is not recorded."""
opened: "set[tuple[str, str]]" = set()


def follow(path: str) -> "list[str]":
    """List a path in the tree, the links that it passes through, and the file that it leads to."""
    found: list[str] = []
    waiting = [path] if os.path.exists(path) else []  # noqa: PTH110
    while waiting:
        place = waiting.pop()
        if place.startswith(ROOT) and place not in found:
            found.append(place)
            waiting += resolve_first_link(place)
    return found or [path]


def resolve_first_link(path: str) -> "list[str]":
    """List the first link in a path, and the path with this link resolved; empty if the path has no link."""
    ends = [slash.start() for slash in re.finditer("/", path + "/") if slash.start() >= len(ROOT)]
    for link, rest in [(path[:end], path[end:]) for end in ends]:
        if os.path.islink(link):  # noqa: PTH114
            folder = os.path.dirname(link)  # noqa: PTH120
            return [link, os.path.abspath(os.path.join(folder, os.readlink(link))) + rest]  # noqa: PTH100, PTH115, PTH118
    return []


def record(event: str, arguments: Any) -> None:
    """Record an opened file with the source file in the tree whose code opened it."""
    if event != "open" or not isinstance(arguments[0], (str, bytes, os.PathLike)):
        return
    path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100
    if not path.startswith(ROOT) or path.endswith(CODE):
        return
    frame: Any = sys._getframe(1)
    while frame and not frame.f_code.co_filename.startswith(ROOT):
        frame = frame.f_back
    if frame:
        opened.update((place[len(ROOT) :], frame.f_code.co_filename[len(ROOT) :]) for place in follow(path))


def list_modules() -> "list[str]":
    """List the files of modules that were imported from the tree."""
    files = [getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values())]
    paths = {os.path.abspath(file) for file in files if isinstance(file, str)}  # noqa: PTH100
    return sorted(path[len(ROOT) :] for path in paths if path.startswith(ROOT) and path.endswith(".py"))


class Printer:
    """Pytest plugin that prints all records as one line of the log."""

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(MARK + json.dumps([sorted(opened), list_modules()]))


def test_recorder(request: Any) -> None:
    request.config.pluginmanager.register(Printer())


if hasattr(sys, "addaudithook"):
    sys.addaudithook(record)
