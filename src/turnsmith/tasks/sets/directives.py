"""Arguments of test commands that select the hidden tests: files, or names that the test runner uses."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from turnsmith.tasks.sets.cells import read_files

FILE_ID = re.compile(r"[^:]*\.\w+::")
"""Pattern of test ids that start with a file: `tests/a.py::test_b`, not `test_x (m.T)`. The grader runs the files of such ids."""
NO_TESTS = (".json", ".png", ".csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
"""Endings of data files. The test command does not get such files of a test patch as arguments. The list is SWE-bench's."""


@dataclass(frozen=True)
class TestRule:
    """Test command of a repository, its log parser, and the kind of arguments that the command takes."""

    __test__ = False  # keep pytest from collecting this class

    command: str
    parser: str
    takes: str
    """Kind of arguments that select tests: `files`, `labels` (Django's dotted modules) or `ids`."""

    def find_directives(self, test_patch: str, tests: list[str]) -> list[str]:
        """Return arguments that select the hidden tests; none if all ids start with a file, since it is run. Raises Refused."""
        if begin_with_files(tests):
            return []
        files = find_patched_tests(test_patch)
        return [to_label(file) for file in files] if self.takes == "labels" else files


def names_file(test: str) -> bool:
    """Return True if a test id starts with a file, as pytest's ids do."""
    return FILE_ID.match(test) is not None


def begin_with_files(tests: Iterable[str]) -> bool:
    """Return True if all test ids start with a file, as pytest's ids do."""
    return all(map(names_file, {test[: test.find("::") + 2] for test in tests}))


def find_patched_tests(test_patch: str) -> list[str]:
    """List the test files that a test patch adds or changes, without data files. Raises Refused."""
    files = read_files(test_patch, "test patch") if test_patch else []
    return [file.path for file in files if not file.is_deleted and not file.path.endswith(NO_TESTS)]


def to_label(file: str) -> str:
    """Convert a test file to the label that Django's test runner takes: `tests/auth_tests/test_a.py` → `auth_tests.test_a`."""
    return file.removesuffix(".py").removeprefix("tests/").replace("/", ".")


def find_rule(repo: str, version: str) -> TestRule:
    """Return the test command of a version of a repository; pytest for unknown repositories."""
    table = _read_table()
    rule: dict[str, Any] = table["default"] | table["repositories"].get(repo.lower(), {})
    return TestRule(rule.get("versions", {}).get(version, rule["command"]), rule["parser"], rule["takes"])


@cache
def _read_table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("tests_of_repositories.toml").read_text(encoding="utf-8"))
