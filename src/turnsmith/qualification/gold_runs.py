"""Test runs with the gold patch that several tasks share.

If several bugs were made in one tree, all their gold patches restore that tree, so one test run serves all tasks.
The tests must also run in the same way. Shared runs count only if all expected tests of all these tasks passed without
tampering; otherwise each task is run alone.
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from turnsmith.audit.ability import GoldTrial
from turnsmith.errors import GradingError, SandboxError
from turnsmith.git.checkout import run_apply
from turnsmith.git.layers import walk_merged
from turnsmith.git.one_commit import read_entry
from turnsmith.git.patch_policy import PatchRefused
from turnsmith.grading.cases import Case
from turnsmith.grading.patch_selection import select_gold
from turnsmith.grading.testing import CLEAN_STATUSES
from turnsmith.qualification.fragments import changed_paths
from turnsmith.qualification.record import digest_entries
from turnsmith.runs.temporary import temporary_folder
from turnsmith.types import Grade, Outcome, Task

RUN_COLUMNS = {"test_command", "log_parser", "status_rules", "workdir", "image", "setup", "test_patch", "environment"}
"""Columns of a task that determine how its tests run. Only tasks that are equal in all of them share runs."""
Run = Callable[[Case], Awaitable[list[Grade]]]
"""Function that runs the tests with the gold patch repeatedly; returns the grades."""


@dataclass(eq=False)
class GoldRuns:
    """Test runs that serve several tasks, because the gold patches of these tasks leave the same tree."""

    case: Case
    """First of these tasks, with the expected tests of all of them."""
    runs: asyncio.Future[list[Grade]] | None = None
    trial: asyncio.Future[GoldTrial] | None = None

    async def run(self, task: Task, run: Run) -> list[Grade]:
        """Return a task's grades in the runs, which the first call starts; empty unless these tasks' expected tests passed."""
        self.runs = self.runs or asyncio.ensure_future(run(self.case))
        try:
            grades = await asyncio.shield(self.runs)
        except (SandboxError, GradingError):
            return []
        if not all(grade.outcome is Outcome.RESOLVED for grade in grades):
            return []
        expected = {*task.FAIL_TO_PASS, *task.PASS_TO_PASS}
        return [
            grade.model_copy(update={"statuses": {test: grade.statuses[test] for test in expected}}) for grade in grades
        ]

    async def try_gold(self, tests_timeout_s: float, attempt: Callable[[Case], Awaitable[GoldTrial]]) -> GoldTrial:
        """Call `attempt` with `case` and this time limit; later calls return the result of the first.

        Raises SandboxError, GradingError.
        """
        case = replace(self.case, tests_timeout_s=tests_timeout_s)
        self.trial = self.trial or asyncio.ensure_future(attempt(case))
        return await asyncio.shield(self.trial)


def group_gold_runs(cases: Sequence[Case]) -> dict[str, GoldRuns]:
    """Group tasks whose gold patches leave equal trees; return task id → shared test runs. Takes about 10 ms per tree."""
    groups = defaultdict[str, list[Case]](list)
    for case in cases:
        if digest := digest_gold_runs(case):
            groups[digest].append(case)
    shared: dict[str, GoldRuns] = {}
    for members in groups.values():
        if len(members) > 1:
            shared_runs = GoldRuns(members[0].with_task(expect_all([case.task for case in members])))
            shared.update({case.task.instance_id: shared_runs for case in members})
    return shared


def expect_all(tasks: Sequence[Task]) -> Task:
    """Return a copy of the first task, whose expected tests are those of all given tasks."""
    first, *_ = tasks
    tests = dict.fromkeys(test for task in tasks for test in [*task.FAIL_TO_PASS, *task.PASS_TO_PASS])
    fixed = set(first.FAIL_TO_PASS)
    clean = {test: status for task in tasks for test, status in task.meta.get(CLEAN_STATUSES, {}).items()}
    rest = [test for test in tests if test not in fixed]
    return first.model_copy(update={"PASS_TO_PASS": rest, "meta": {**first.meta, CLEAN_STATUSES: clean}})


def digest_gold_runs(case: Case) -> str:
    """Hash the tree with the gold patch, and the settings of its tests; empty if the task cannot share test runs."""
    if not case.is_sealed or not case.tree.layers:
        return ""
    places = {path: place for path, place in walk_merged(case.tree.layers) if path.partition("/")[0] != ".git"}
    try:
        patched = apply_gold(case, places)
    except (PatchRefused, SandboxError):
        return ""
    tests = f"{case.task.model_dump_json(include=RUN_COLUMNS)}\n{case.directives}"
    return hashlib.sha256(f"{digest_entries(_list_fixed(places, patched))}\n{tests}".encode()).hexdigest()


def _list_fixed(places: Mapping[str, Path], patched: Mapping[str, bytes | None]) -> Iterator[tuple[str, int, bytes]]:
    """Yield path, old mode and new content of each file. `places` are the files before the gold patch, `patched` its changes."""
    for path in sorted({*places, *patched}):
        mode, content = read_entry(places[path]) if path in places else (0, b"")
        yield path, mode, patched.get(path, content) or b""


def apply_gold(case: Case, places: Mapping[str, Path]) -> dict[str, bytes | None]:
    """Apply the gold patch to copies of the files in `places`; return the new content of each changed file, None if removed.

    Raises PatchRefused; SandboxError if it does not apply.
    """
    patch, paths = select_gold(case.tree), changed_paths(case.task.patch)
    with temporary_folder("gold") as folder:
        for path in paths:
            if path in places and places[path].is_file() and not places[path].is_symlink():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(places[path].read_bytes())
        run_apply(patch, folder, f"the gold patch of {case.task.instance_id} does not apply", SandboxError)
        return {path: (folder / path).read_bytes() if (folder / path).is_file() else None for path in paths}
