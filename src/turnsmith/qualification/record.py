"""Verdicts on tasks, decided from grades, and their records, which are stored beside the task file."""

import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
from turnsmith.types import Ability, Grade, Outcome, Record, Task, TaskTree

VERSION = 16
"""Version of records, raised when verdicts may change; records of other versions are ignored."""
FILE_NAME = "qualification.jsonl"
QUARANTINED = "quarantined"
"""Column of `Task.meta`: PASS_TO_PASS tests that were left out, since they do not always pass with the gold patch."""
KIND_AND_EXECUTABLE = 0o170100
"""Mask of a file mode: file type and executable bit, which are the parts that count in the digest of a tree."""


class Verdict(StrEnum):
    """Verdict of the qualification of a task; its value is shown in tables."""

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
    FLAKY = "flaky", "the status of a FAIL_TO_PASS test varies, or no PASS_TO_PASS test always passes"
    TOO_SLOW = "too slow", "the tests run out of time with the gold patch"
    NAMES_MISSING = (
        "names missing",
        "all FAIL_TO_PASS tests need names that the gold patch adds and the issue does not give",
    )
    UNGRADABLE = "not gradable", "the grader's pytest plugin fails on the untouched tree or with the gold patch"
    INFRASTRUCTURE = "infrastructure", "the infrastructure failed each time, so the task is not judged"

    @property
    def is_final(self) -> bool:
        """Return False for an infrastructure fault, after which the task is examined again."""
        return self is not Verdict.INFRASTRUCTURE


class LeakKind(StrEnum):
    """Kind of content that an agent must not be able to read."""

    GOLD_PATCH = "gold patch"
    TEST_PATCH = "test patch"
    COPY = "copy"
    """Installed copy of a file that the gold patch changes, or its bytecode."""


class Leak(Record):
    """File that an agent could read and that contains part of the fix or of the hidden tests."""

    kind: LeakKind
    where: str
    """Path of the file: relative to the tree, or absolute in the sandbox."""
    what: str


class Passes(Record):
    """Number of runs in which a test passed, on the untouched tree and with the gold patch."""

    base: int
    gold: int


class Qualification(Record):
    """Result of examining if one task is fit for training."""

    instance_id: str
    version: int = VERSION
    key: str
    """Digest of everything that the verdict depends on (`make_key`)."""
    verdict: Verdict
    detail: str = ""
    repeats: int = 0
    """Number of test runs on the untouched tree; the tests ran as often with the gold patch."""
    leaks: list[Leak] = Field(default_factory=list)
    passes: dict[str, Passes] = Field(default_factory=dict)
    quarantined: list[str] = Field(default_factory=list)
    """PASS_TO_PASS tests that did not pass in every run with the gold patch."""
    missing_names: list[str] = Field(default_factory=list)
    """Names that the gold patch adds and the issue does not give, if all FAIL_TO_PASS tests fail because names are missing."""
    audit: Ability | None = None
    """Result of checking if audits of the task's patches can reach a verdict; None if the check failed or was not made."""
    audit_fault: str = ""
    """Infrastructure fault that prevented the check if audits can reach a verdict; empty if there was none."""
    test_data: list[str] = Field(default_factory=list)
    """Files outside test folders that only tests read or import while they run with the gold patch."""
    gold_s: float = 0.0
    """Median time in seconds of grading the gold patch; 0 if no test ran."""
    sandbox: str = ""
    """Sandbox kind in which the tests ran; empty in older records."""
    isolation: str = ""
    """Isolation of the sandboxes in which the tests ran."""

    @property
    def is_qualified(self) -> bool:
        return self.verdict is Verdict.QUALIFIED


def qualified(task: Task, record: Qualification) -> Task:
    """Return the task without quarantined tests, and with the gold patch's test time and the test data of its record."""
    found = {GOLD_S: record.gold_s, QUARANTINED: record.quarantined, TEST_DATA: record.test_data}
    facts: dict[str, Any] = {name: value for name, value in found.items() if value}
    kept = [test for test in task.PASS_TO_PASS if test not in record.quarantined]
    return task.model_copy(update={"PASS_TO_PASS": kept, "meta": task.meta | facts}) if facts else task


def make_key(tree: TaskTree, sandbox: SandboxConfig) -> str:
    """Hash everything on which a verdict depends: task, tree, sandbox settings and record version.

    The location of the tree on disk does not matter. `sandbox.options` do not count, because `tasks qualify` cannot set them.
    """
    runtime = f"{VERSION} {_name_runtime(tuple(sandbox.test_plugins))} {sandbox.kind}"
    task = tree.task
    row = task.model_dump_json(exclude={"layers", "environment"})
    made_of = [row, Path(task.environment).name, digest_tree(tree.layers)]  # an environment is named after its recipe
    parts = [runtime, sandbox.image, *sorted(sandbox.hidden), *made_of]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@lru_cache(maxsize=4096)
def digest_tree(layers: tuple[Path, ...]) -> str:
    """Return the SHA-256 of paths, modes and contents of the tree that overlaid folders form; cached in this process."""
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


FINAL = (Verdict.GOLD_FAILS, Verdict.NO_OP_PASSES, Verdict.TOO_SLOW)
"""Verdicts that more test runs cannot change."""


@dataclass(frozen=True)
class Decision:
    """Verdict on a task, with its reason."""

    verdict: Verdict
    detail: str = ""
    quarantined: tuple[str, ...] = ()


def decide(task: Task, base: Sequence[Grade], gold: Sequence[Grade], missing_names: Sequence[str] = ()) -> Decision:
    """Decide the verdict on a task from grades of the untouched tree, grades of the gold patch, and missing names."""
    decision = _judge_gold(task, gold) or _judge_base(task, base) or _judge_rest(task, base, gold)
    if decision.verdict is Verdict.QUALIFIED and missing_names:
        return Decision(Verdict.NAMES_MISSING, ", ".join(missing_names), decision.quarantined)
    return decision


def _judge_gold(task: Task, gold: Sequence[Grade]) -> Decision | None:
    if all(run.outcome is Outcome.TESTS_TIMED_OUT for run in gold):
        return Decision(Verdict.TOO_SLOW, f"the gold patch ran out of time in all of {len(gold)} runs")
    never = [test for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS] if not count_passes(gold, test)]
    if never:
        return Decision(Verdict.GOLD_FAILS, _name(never, "never passes with the gold patch"))
    tampered = [run for run in gold if not run.resolved and set(run.statuses.values()) == {"passed"}]
    if tampered:
        verdict = Verdict.GOLD_FAILS if len(tampered) >= len(gold) - 1 else Verdict.FLAKY
        return Decision(verdict, f"in {len(tampered)} of {len(gold)} runs: {tampered[0].detail}")
    flaky = [test for test in task.FAIL_TO_PASS if count_passes(gold, test) < len(gold)]
    return Decision(Verdict.FLAKY, _count(flaky, gold, "with the gold patch")) if flaky else None


def _judge_base(task: Task, base: Sequence[Grade]) -> Decision | None:
    passing = [test for test in task.FAIL_TO_PASS if count_passes(base, test)]
    if not passing:
        return None
    if always := [test for test in passing if count_passes(base, test) == len(base)]:
        return Decision(Verdict.NO_OP_PASSES, _name(always, "passes on the untouched tree"))
    return Decision(Verdict.FLAKY, _count(passing, base, "on the untouched tree"))


def _judge_rest(task: Task, base: Sequence[Grade], gold: Sequence[Grade]) -> Decision:
    """Judge PASS_TO_PASS, and quarantine flaky tests. FAIL_TO_PASS tests always passed with the gold patch and never without."""
    flaky = [test for test in task.PASS_TO_PASS if 0 < count_passes(base, test) < len(base)]
    unsteady = tuple(test for test in task.PASS_TO_PASS if test in flaky or count_passes(gold, test) < len(gold))
    if unsteady and len(unsteady) == len(task.PASS_TO_PASS):
        return Decision(Verdict.FLAKY, "no PASS_TO_PASS test always passes", unsteady)
    detail = f"{len(unsteady)} PASS_TO_PASS tests quarantined" if unsteady else ""
    return Decision(Verdict.QUALIFIED, detail, unsteady)


def _name(tests: Sequence[str], what: str) -> str:
    more = f" ({len(tests)} such tests)" if len(tests) > 1 else ""
    return f"{tests[0]} {what}{more}"


def _count(tests: Sequence[str], runs: Sequence[Grade], where: str) -> str:
    return f"{tests[0]} passes in {count_passes(runs, tests[0])} of {len(runs)} runs {where}"


def count_passes(grades: Sequence[Grade], test: str) -> int:
    return sum(each.statuses.get(test) == "passed" for each in grades)
