"""What a test command gets beside itself: the files of the hidden tests, or what the repository's own runner calls them."""

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from turnsmith.tasks.sets.cells import read_files

FILE_ID = re.compile(r"[^:]*\.\w+::")
"""`tests/test_a.py::test_b`, but not `test_x (m.T)`, `test_eq` or `module::test`."""
NO_TESTS = (".json", ".png", ".csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml")
"""Files beside the tests that no runner takes, as SWE-bench counts them."""
PYTEST = "pytest"
"""The parser of suites whose report can be sealed."""


@dataclass(frozen=True)
class TestRule:
    """How the tests of a repository are run."""

    __test__ = False  # pytest would take the name for a test class

    command: str
    parser: str
    takes: str
    """`files`, `labels` (Django's dotted modules) or `ids`."""

    def find_directives(self, test_patch: str, tests: list[str]) -> list[str]:
        """What the command gets; nothing where the ids name their files, which the grader then gives. Raises Refused."""
        if begin_with_files(tests):
            return []
        files = find_patched_tests(test_patch)
        return [to_label(file) for file in files] if self.takes == "labels" else files


def names_file(test: str) -> bool:
    """Is it an id of pytest's, which begins with a file?"""
    return FILE_ID.match(test) is not None


def begin_with_files(tests: Iterable[str]) -> bool:
    """Are all of them such ids?"""
    return all(map(names_file, {test[: test.find("::") + 2] for test in tests}))


def find_patched_tests(test_patch: str) -> list[str]:
    """The files of the hidden tests that a runner takes: neither deleted nor data. Raises Refused."""
    files = read_files(test_patch, "test patch") if test_patch else []
    return [file.path for file in files if not file.is_deleted and not file.path.endswith(NO_TESTS)]


def to_label(file: str) -> str:
    """Django's name of a test file: `tests/auth_tests/test_a.py` → `auth_tests.test_a`."""
    return file.removesuffix(".py").removeprefix("tests/").replace("/", ".")


def find_rule(repo: str, version: str) -> TestRule:
    """The rule of a repository at a version; pytest for all that have none of their own."""
    table = _read_table()
    rule: dict[str, Any] = table["default"] | table["repositories"].get(repo.lower(), {})
    return TestRule(rule.get("versions", {}).get(version, rule["command"]), rule["parser"], rule["takes"])


@cache
def _read_table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("tests_of_repositories.toml").read_text(encoding="utf-8"))
