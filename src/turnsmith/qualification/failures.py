"""How a test fails on the untouched tree, read from what pytest says of it."""

import re
from collections.abc import Collection, Iterable

from turnsmith.qualification.fragments import added_lines, changed_paths
from turnsmith.rewards.testing import SuiteReport
from turnsmith.types import Task

COLLECTING = re.compile(r"^_+ ERROR collecting (\S+) _+$(.*?)(?=^_+ |^=+ |\Z)", re.MULTILINE | re.DOTALL)
COMPLAINT = re.compile(r"^E +\S.*$", re.MULTILINE)
MISSING = re.compile(r"(?:has no attribute|cannot import name|No module named) '([\w.]+)'")
WORD = re.compile(r"\w+")


def find_messages(tests: Iterable[str], report: SuiteReport) -> dict[str, str]:
    """What pytest says of each test, or of the file that it could not collect; nothing where it says nothing."""
    complaints = {path: (COMPLAINT.findall(text) or [""])[-1] for path, text in COLLECTING.findall(report.log)}
    said = {test: result.message for test, result in report.results.items()}
    return {test: said.get(test, complaints.get(test.split("::")[0], "")) for test in tests}


def find_missing_names(task: Task, messages: Collection[str]) -> list[str]:
    """Names for want of which every message speaks and that the gold patch brings; nothing where one speaks of something else.

    The paper leaves out tasks whose tests fail by AttributeError or ImportError: they ask for names that the issue need not give.
    A wrong value, `'int' object has no attribute 'isdigit'`, fails by that class as well, so the name has to be the patch's.
    """
    brought = set(WORD.findall("\n".join([*changed_paths(task.patch), *added_lines(task.patch)])))
    names = [_missing_name(message) for message in messages]
    return sorted(set(names)) if all(name in brought for name in names) else []


def _missing_name(message: str) -> str:
    found = MISSING.search(message)
    return found[1].rpartition(".")[2] if found else ""
