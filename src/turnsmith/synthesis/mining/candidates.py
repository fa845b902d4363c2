"""Selection of commits that may become tasks: they change source and tests together, within size limits."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from turnsmith.environments.discovery import COMPILED
from turnsmith.git.history import Commit, FileChange
from turnsmith.grading.patch_selection import FileClass, classify

TEST_FILE = re.compile(r"(test_.*|.*_test|tests?)\.py")
"""Pattern of names of test files; the test command gets changed files with such names as arguments."""
DOCUMENTS = re.compile(
    r"(.*/)?(docs?|changes|changelog\.d|news|newsfragments|releasenotes|\.github)/.*|.*\.(md|rst|txt)", re.I
)
"""Pattern of documentation paths. The gold patch leaves out such files, since they often describe the fix."""


@dataclass(frozen=True)
class Bounds:
    """Maximum size of a commit's change to source files."""

    max_files: int = 7
    """Maximum number of changed source files, as in arXiv 2508.03501, §4."""
    max_lines: int = 500
    """Maximum number of added and removed lines in source files, all together."""


@dataclass(frozen=True)
class FixCommit:
    """Commit that changes source files and tests together."""

    commit: Commit
    source: tuple[str, ...]
    """Paths of the changed source files, which make the gold patch."""
    tests: tuple[str, ...]
    """Paths of the changed test files and of other changed files in test folders."""
    test_files: tuple[str, ...]
    """Changed test files that the commit does not delete; they are given to the test command as arguments."""


def consider(commit: Commit, bounds: Bounds) -> FixCommit | str:
    """Return a commit as a candidate for a task, or the reason for its rejection."""
    kinds = {file.path: classify_change(file) for file in commit.files}
    source = [file for file in commit.files if kinds[file.path] == "source"]
    tests = [file for file in commit.files if kinds[file.path] == "test"]
    test_files = [
        file.path for file in tests if file.status != "D" and TEST_FILE.fullmatch(PurePosixPath(file.path).name)
    ]
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
    """Classify a changed file as `test`, `source` or `other`. `other` is documentation, test settings and generated files."""
    kind, folders = classify(file.path), PurePosixPath(file.path).parts[:-1]
    if kind is FileClass.TEST_SURFACE or (kind is not FileClass.GENERATED and {"test", "tests"} & set(folders)):
        return "test"
    if kind is FileClass.SOURCE and not DOCUMENTS.fullmatch(file.path):
        return "source"
    return "other"
