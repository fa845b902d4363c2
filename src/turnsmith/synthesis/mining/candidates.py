"""Which commits may become tasks, and why the others may not."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from turnsmith.environments.discovery import COMPILED
from turnsmith.git.history import Commit, FileChange
from turnsmith.grading.patch_selection import HunkClass, classify

TEST_FILE = re.compile(r"(test_.*|.*_test|tests?)\.py")
"""Names of files that hold tests, as runners look for them."""
DOCUMENTS = re.compile(
    r"(.*/)?(docs?|changes|changelog\.d|news|newsfragments|releasenotes|\.github)/.*|.*\.(md|rst|txt)", re.I
)
"""Neither source nor tests: notes that often tell the fix in words."""


@dataclass(frozen=True)
class Bounds:
    """How large a change may be."""

    max_files: int = 7
    """Of source; the paper's filter has the same bound on files (§4)."""
    max_lines: int = 500
    """Of source, added and removed."""


@dataclass(frozen=True)
class FixCommit:
    """A commit that changes source and tests."""

    commit: Commit
    source: tuple[str, ...]
    """Paths of the gold patch."""
    tests: tuple[str, ...]
    """Paths of the hidden tests and of what lies among them."""
    test_files: tuple[str, ...]
    """Of them, those that hold tests after the commit: what the test command gets."""


def consider(commit: Commit, bounds: Bounds) -> FixCommit | str:
    """A candidate, or the reason why it is none."""
    kinds = {file.path: classify_change(file) for file in commit.files}
    source = [file for file in commit.files if kinds[file.path] == "source"]
    tests = [file for file in commit.files if kinds[file.path] == "test"]
    test_files = [file.path for file in tests if file.status != "D" and holds_tests(file.path)]
    faults = {
        "no source changed": not any(file.path.endswith(".py") or COMPILED.fullmatch(file.path) for file in source),
        "no tests changed": not test_files,
        "compiled source changed": any(COMPILED.fullmatch(file.path) for file in source),
        "a binary file or a link changed": not all(file.is_text for file in (*source, *tests)),
        f"more than {bounds.max_files} source files": len(source) > bounds.max_files,
        f"more than {bounds.max_lines} source lines": sum(file.num_lines for file in source) > bounds.max_lines,
    }
    reason = next((fault for fault, is_so in faults.items() if is_so), "")
    if reason:
        return reason
    return FixCommit(commit, tuple(file.path for file in source), tuple(file.path for file in tests), tuple(test_files))


def classify_change(file: FileChange) -> str:
    """`test`, `source`, or `other`: what no patch may bring, or no fix needs."""
    kind = classify(file.path)
    if kind is HunkClass.TEST_SURFACE or (is_among_tests(file.path) and kind is not HunkClass.GENERATED):
        return "test"
    if kind is HunkClass.SOURCE and not DOCUMENTS.fullmatch(file.path):
        return "source"
    return "other"


def is_among_tests(path: str) -> bool:
    """Does it lie in a folder of tests? Then a `conftest.py` is part of them."""
    return bool({"test", "tests"} & set(PurePosixPath(path).parts[:-1]))


def holds_tests(path: str) -> bool:
    return TEST_FILE.fullmatch(PurePosixPath(path).name) is not None
