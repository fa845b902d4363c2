"""Loaded by pytest as the first test file of a run: notes who opens which file of the tree, and prints it at the end.

Nothing of ours is imported here. The suite's own Python runs it; one before 3.8 has no audit hooks, and nothing is noted.
"""

import json
import os
import sys
from typing import Any

MARK, PLACE = "<mark>", "<place>"
"""A word that nobody else prints, and our own path in the tree; both are written here before the file is."""
ROOT = os.path.abspath(__file__)[: -len(PLACE)]  # noqa: PTH100
CODE = (".py", ".pyc", ".pyi", ".so")
opened: "set[tuple[str, str]]" = set()


def note(event: str, arguments: Any) -> None:
    """Keep the file with the innermost file of the tree that runs code on the stack."""
    if event != "open" or not isinstance(arguments[0], (str, bytes, os.PathLike)):
        return
    path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100
    if not path.startswith(ROOT) or path.endswith(CODE):
        return
    frame: Any = sys._getframe(1)
    while frame and not frame.f_code.co_filename.startswith(ROOT):
        frame = frame.f_back
    if frame:
        opened.add((path[len(ROOT) :], frame.f_code.co_filename[len(ROOT) :]))


class Printer:
    """Prints what was noted, in one line of the log."""

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_line(MARK + json.dumps(sorted(opened)))


def test_watching(request: Any) -> None:
    request.config.pluginmanager.register(Printer())


if hasattr(sys, "addaudithook"):
    sys.addaudithook(note)
