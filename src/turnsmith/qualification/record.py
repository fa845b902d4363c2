"""Qualification records of tasks, stored beside the task file and found by a content key."""

import hashlib
import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from turnsmith.config import SandboxConfig
from turnsmith.git.layers import walk_merged
from turnsmith.git.one_commit import read_entry
from turnsmith.grading.cases import GOLD_S
from turnsmith.grading.patch_selection import TEST_DATA
from turnsmith.sandboxes.runtime import required_distributions
from turnsmith.types import Ability, Record, Task, TaskTree

VERSION = 16
"""Version of records, raised when verdicts may change; records of other versions are ignored."""
FILE_NAME = "qualification.jsonl"
QUARANTINED = "quarantined"
"""Column of `Task.meta`: PASS_TO_PASS tests left out because they do not always pass with the gold patch."""
KIND_AND_EXECUTABLE = 0o170100
"""Mask of a file mode: file type and executable bit."""


class Verdict(StrEnum):
    """Verdict on a task; the value is shown in tables."""

    meaning: str

    def __new__(cls, word: str, meaning: str) -> "Verdict":
        verdict = str.__new__(cls, word)
        verdict._value_, verdict.meaning = word, meaning
        return verdict

    QUALIFIED = "qualified", "nothing leaks, the gold patch passes every time, the untouched tree never does"
    LEAKS = "leaks", "the agent could read the fix or the hidden tests in another file"
    BROKEN_SETUP = "broken set-up", "a set-up command fails, or the gold or the test patch does not apply"
    GOLD_FAILS = "gold fails", "an expected test never passes with the gold patch"
    NO_OP_PASSES = "no-op passes", "a FAIL_TO_PASS test passes on the untouched tree"
    FLAKY = "flaky", "a FAIL_TO_PASS test does not end the same way every time, or no PASS_TO_PASS test is steady"
    TOO_SLOW = "too slow", "the tests run out of time with the gold patch"
    NAMES_MISSING = (
        "names missing",
        "all FAIL_TO_PASS tests lack names that the gold patch brings and the issue does not give",
    )
    UNGRADABLE = "not gradable", "the grader's pytest plugin fails on the untouched tree or with the gold patch"
    INFRASTRUCTURE = "infrastructure", "the machinery failed each time; this says nothing of the task"

    @property
    def is_final(self) -> bool:
        """Return False for infrastructure faults, which are tried again."""
        return self is not Verdict.INFRASTRUCTURE


class LeakKind(StrEnum):
    """Kind of content that gives the answer away."""

    GOLD_PATCH = "gold patch"
    """Text of the gold patch."""
    TEST_PATCH = "test patch"
    """Text of the test patch."""
    COPY = "copy"
    """Installed copy of a file that the gold patch changes, or its bytecode."""


class Leak(Record):
    """Content that an agent could read and should not."""

    kind: LeakKind
    where: str
    """Path in the tree, or absolute path in the sandbox."""
    what: str
    """Description of the content."""


class Passes(Record):
    """Number of runs in which a test passed."""

    base: int
    """Runs on the untouched tree."""
    gold: int
    """Runs with the gold patch."""


class Qualification(Record):
    """Qualification record of one task, found by its key."""

    instance_id: str
    version: int = VERSION
    key: str
    """Digest of everything that the verdict depends on (`make_key`)."""
    verdict: Verdict
    detail: str = ""
    """Reason for the verdict, as text."""
    repeats: int = 0
    """Number of runs, each of the untouched tree and of the gold patch; the first in a new interpreter."""
    leaks: list[Leak] = Field(default_factory=list)
    passes: dict[str, Passes] = Field(default_factory=dict)
    """Passed runs of each expected test."""
    quarantined: list[str] = Field(default_factory=list)
    """PASS_TO_PASS tests that did not pass every time."""
    missing_names: list[str] = Field(default_factory=list)
    """Names missing in all FAIL_TO_PASS tests that the gold patch adds and the issue does not give."""
    audit: Ability | None = None
    """Ability of the task's audit; None if unknown (infrastructure fault) or the task is not qualified."""
    audit_fault: str = ""
    """Infrastructure fault that left the ability unknown."""
    test_data: list[str] = Field(default_factory=list)
    """Files outside test folders that only tests read or import with the gold patch."""
    gold_s: float = 0.0
    """Median seconds of grading the gold patch; 0 if nothing ran."""
    isolation: str = ""
    """Isolation of the sandboxes in which the tests ran."""

    @property
    def is_qualified(self) -> bool:
        return self.verdict is Verdict.QUALIFIED


def qualified(task: Task, record: Qualification) -> Task:
    """Return the task with its gold-patch time and test data, and without quarantined tests."""
    found = {GOLD_S: record.gold_s, QUARANTINED: record.quarantined, TEST_DATA: record.test_data}
    facts: dict[str, Any] = {name: value for name, value in found.items() if value}
    kept = [test for test in task.PASS_TO_PASS if test not in record.quarantined]
    return task.model_copy(update={"PASS_TO_PASS": kept, "meta": task.meta | facts}) if facts else task


def make_key(tree: TaskTree, sandbox: SandboxConfig) -> str:
    """Digest everything that a verdict depends on: row, tree, sandbox settings and record version.

    The location of the layers does not matter.
    """
    runtime = f"{VERSION} {_name_runtime(tuple(sandbox.test_plugins))} {sandbox.kind}"
    task = tree.task
    row = task.model_dump_json(exclude={"layers", "environment"})
    made_of = [row, Path(task.environment).name, digest_tree(tree.layers)]  # an environment is named after its recipe
    parts = [runtime, sandbox.image, *sorted(sandbox.hidden), *made_of]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@lru_cache(maxsize=4096)
def digest_tree(layers: tuple[Path, ...]) -> str:
    """Return the SHA-256 of names, kinds, modes and contents of the stacked tree; cached in the process."""
    return digest_entries((path, *read_entry(place)) for path, place in sorted(walk_merged(layers)))


def digest_entries(entries: Iterable[tuple[str, int, bytes]]) -> str:
    """Return the SHA-256 of sorted entries of a tree: path, mode, content."""
    digest = hashlib.sha256()
    for path, mode, content in entries:
        for part in (os.fsencode(path), b"%o" % (mode & KIND_AND_EXECUTABLE), content):
            digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()


@cache
def _name_runtime(plugins: tuple[str, ...]) -> str:
    distributions = required_distributions("pytest", *plugins)
    versions = [f"{distribution.name}=={distribution.version}" for distribution in distributions]
    return " ".join([f"{sys.version_info.major}.{sys.version_info.minor}", *versions])
