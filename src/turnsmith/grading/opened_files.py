"""Search for test data and helpers, which patches may not change, by running the tests with the gold patch.

A hook (`sys.addaudithook`) records which code opens which file of the tree. A file is test data if only tests open
it. A module is a helper if it imports a test framework and no source file mentions it.
"""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from secrets import token_hex

from turnsmith.grading.cases import Case, run_tests
from turnsmith.grading.file_classes import find_files, find_unmentioned
from turnsmith.grading.patch_selection import FileClass, Project, describe_project, select_gold
from turnsmith.grading.sentinels import draw_path

_RECORDER = Path(__file__).with_name("recorder.py").read_text(encoding="utf-8")
_FRAMEWORK = re.compile(r"^[ \t]*(?:from[ \t]+|import\b.*)\b(?:_?pytest|unittest|nose|mock)\b", re.MULTILINE)
"""Pattern of an import of a test framework. A module that matches is a test helper if no source file mentions it."""


@dataclass(frozen=True)
class OpenedFiles:
    """Files that one test run opened, and modules that it imported."""

    opened: tuple[tuple[str, str], ...] = ()
    """Pairs of an opened file and the source file whose code opened it."""
    modules: tuple[str, ...] = ()
    """Files of modules that were imported from the working tree."""


async def find_test_data(case: Case) -> list[str]:
    """Find the files of a tree that only tests open or import; none if the suite does not use pytest.

    Raises PatchRefused, SandboxError, GradingError.
    """
    if not case.is_sealed:
        return []
    place, mark = draw_path(PurePosixPath(case.directives[0]).parent), f"opened-{token_hex(16)} "
    text = _RECORDER.replace("<mark>", mark).replace("<place>", place)
    report = await run_tests(case, select_gold(case.tree), (place, *case.directives), {place: text})
    return select_test_data(read_opened(report.log, mark), describe_project(case.tree))


def read_opened(log: str, mark: str) -> OpenedFiles:
    """Read the recorded files and modules from a log line that begins with `mark`; empty if there is none."""
    lines = [line.partition(mark)[2] for line in log.split("\n") if mark in line]
    opened, modules = json.loads(lines[0]) if lines else ((), ())
    return OpenedFiles(tuple((path, opener) for path, opener in opened), tuple(modules))


def select_test_data(opened_files: OpenedFiles, project: Project) -> list[str]:
    """Select the files that only tests use, except files that are tests by their names or that the gold patch changes."""
    helpers = select_helpers(opened_files, project)
    known = replace(project, test_data=helpers)
    by_source = {path for path, opener in opened_files.opened if known.classify(opener) is FileClass.SOURCE}
    data = {path for path, _ in opened_files.opened} - by_source
    found = {*helpers, *data} - project.source_files
    return sorted(path for path in found if project.classify(path) is FileClass.SOURCE)


def select_helpers(opened_files: OpenedFiles, project: Project) -> frozenset[str]:
    """Select the imported modules that import a test framework and that no source file mentions."""
    files = find_files(project.layers)
    texts = {path: files[path].read_text("latin-1") for path in opened_files.modules if path in files}
    places = {path: PurePosixPath(path) for path, text in texts.items() if _FRAMEWORK.search(text)}
    words = {path: [file.parent.name if file.stem == "__init__" else file.stem] for path, file in places.items()}
    return find_unmentioned(words, files, project.test_files)
