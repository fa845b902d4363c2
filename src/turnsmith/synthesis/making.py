"""Bugs at scale: tasks from many packages at once, each kept as it is found, so that a killed making goes on.

The folder holds `tasks.jsonl`, `candidates.jsonl` with what became of each bug that was tried, and `making.json`, which counts
them. What is kept depends on packages, number and seed, and on which tests are quick and steady on this machine: a making that
goes on finds that out anew.
"""

import asyncio
import shutil
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.grading.testing import run_suite
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.bugs import Bug, combine, spread
from turnsmith.synthesis.grounds import Ground, prepare
from turnsmith.synthesis.issues import IssueWriter, describe_failures, keep_template
from turnsmith.synthesis.ordering import run_in_order
from turnsmith.synthesis.records import KEPT, TRIALS, BugTrial, MakingSpec, claim_folder, read_finished, write_counts
from turnsmith.synthesis.repositories import Candidate, Repository, name_bug, write_candidate
from turnsmith.synthesis.validation import Validation, compare_suites, restrict, to_task
from turnsmith.tasks.dataset import FILE_NAME, load_tasks, save_tasks
from turnsmith.types import Task

UNREACHED = "no test reaches it"
COMBINED_SHARE = 0.2
"""Of the tasks of a package, those of two bugs."""
MAX_TRIES_PER_TASK = 12
"""Bugs tried for each task wanted, before giving up."""

AHEAD = 4
"""Bugs under way for each worker: results are taken in their order, and one that hangs must not hold up the others."""


async def make_bugs(
    spec: MakingSpec,
    out: Path,
    provider: SandboxProvider,
    *,
    num_workers: int,
    write_issue: IssueWriter = keep_template,
    on_trial: Callable[[BugTrial], None] = lambda trial: None,
) -> dict[str, str]:
    """Make tasks in `out`, or go on there; returns the packages of which none could be made, with the reasons.

    Fewer tasks than asked for are no error. A new folder is removed where no bug was tried.
    Raises UsageError where `out` is in use or no task was made, SandboxError.
    """
    is_new = claim_folder(out, spec)
    with (out / TRIALS).open("ab") as held:
        hold(held)
        journal = read_journal(out, on_trial)
        failures = await make_packages(spec, journal, provider, num_workers, write_issue)
    if not journal.tasks:
        if is_new and not journal.trials:
            shutil.rmtree(out)
        raise UsageError(
            "; ".join(failures.values()) or f"no bug of {', '.join(spec.packages)} can be told by its tests"
        )
    order = {package: place for place, package in enumerate(spec.packages)}
    save_tasks(out, sorted(load_tasks(out), key=lambda task: order.get(task.meta["package"], len(order))))
    return failures


@dataclass
class Journal:
    """What is on record in the folder of a making."""

    folder: Path
    trials: dict[str, BugTrial]
    """By instance id."""
    tasks: set[str]
    """Instance ids in the task file."""
    on_trial: Callable[[BugTrial], None]

    def keep(self, trial: BugTrial, task: Task | None) -> None:
        """Write down what became of a bug, the task first."""
        if task and task.instance_id not in self.tasks:
            append_record(self.folder / FILE_NAME, task)
            self.tasks.add(task.instance_id)
        if trial.instance_id not in self.trials:
            append_record(self.folder / TRIALS, trial)
            self.trials[trial.instance_id] = trial
        self.on_trial(trial)


def read_journal(folder: Path, on_trial: Callable[[BugTrial], None]) -> Journal:
    """What an earlier making has left. Raises UsageError."""
    trials = {trial.instance_id: trial for trial in read_records(folder / TRIALS, BugTrial)}
    return Journal(folder, trials, {task.instance_id for task in read_records(folder / FILE_NAME, Task)}, on_trial)


async def make_packages(
    spec: MakingSpec, journal: Journal, provider: SandboxProvider, num_workers: int, write_issue: IssueWriter
) -> dict[str, str]:
    """Make the tasks of all packages that are not finished; returns why there are none of some. Raises SandboxError."""
    finished, failures = read_finished(journal.folder), dict[str, str]()
    free = asyncio.Semaphore(num_workers)
    for trial in journal.trials.values():
        if trial.package in finished:
            journal.on_trial(trial)

    async def make(package: str) -> str:
        return await make_package(package, spec, journal, provider, free, AHEAD * num_workers, write_issue)

    left = [package for package in spec.packages if package not in finished]
    async with aclosing(run_in_order(left, make, num_workers)) as works:
        async for package, failure in works:
            if failure:
                failures[package] = failure
            else:
                finished.append(package)
            write_counts(journal.folder, spec, journal.trials.values(), finished, failures)
    return failures


async def make_package(
    package: str,
    spec: MakingSpec,
    journal: Journal,
    provider: SandboxProvider,
    free: asyncio.Semaphore,
    num_ahead: int,
    write_issue: IssueWriter,
) -> str:
    """Make the tasks of one package; returns why there are none, or nothing. Raises SandboxError."""
    try:
        ground = await prepare(package, journal.folder, provider)
    except UsageError as error:
        return str(error)
    meta = {"kind": "package", "package": package, "seed": spec.seed}
    trier = Trier(ground, journal, provider, free, num_ahead, write_issue, meta)
    num_single = spec.num_tasks - round(COMBINED_SHARE * spec.num_tasks)
    singles = list(spread(ground.found, Random(f"{ground.repository.name} {spec.seed}")))
    singles = singles[: spec.num_tasks * MAX_TRIES_PER_TASK]
    kept, num_tried = await trier.collect(singles, num_single)
    num_combined = spec.num_tasks - num_single
    pairs = list(islice(combine(kept, Random(f"{ground.repository.name} {spec.seed} pairs")), 3 * num_combined))
    combined, _ = await trier.collect(pairs, num_combined)
    await trier.collect(singles[num_tried:], spec.num_tasks - len(kept) - len(combined))
    sweep_layers(ground.repository, journal.tasks)
    return "" if kept else f"no bug in {ground.repository.name} can be told by its tests: take another package"


def sweep_layers(repository: Repository, kept: Collection[str]) -> None:
    """Remove the layers of bugs that were under way when enough were kept."""
    for layer in repository.layer.parent.glob(f"{repository.name}.*"):
        if layer.name not in kept and not layer.name.startswith(f"{repository.name}.objects."):
            shutil.rmtree(layer)


@dataclass(frozen=True)
class Trier:
    """Tries the bugs of one package."""

    ground: Ground
    journal: Journal
    provider: SandboxProvider
    free: asyncio.Semaphore
    """As many bugs at once are tried, of all packages."""
    num_ahead: int
    """As many of this one are under way."""
    write_issue: IssueWriter
    meta: dict[str, Any]
    """Of its tasks."""

    async def collect(self, bugs: Sequence[Bug], num_wanted: int) -> tuple[list[Bug], int]:
        """Try bugs in their order until enough are kept; returns those, and how many were tried."""
        kept, num_tried = list[Bug](), 0
        if num_wanted > 0:
            async with aclosing(run_in_order(bugs, self.try_bug, self.num_ahead)) as results:
                async for bug, (trial, task) in results:
                    self.journal.keep(trial, task)
                    num_tried += 1
                    kept += [bug] if trial.reason == KEPT else []
                    if len(kept) >= num_wanted:
                        break
        return kept, num_tried

    async def try_bug(self, bug: Bug) -> tuple[BugTrial, Task | None]:
        """Run the test files that it may matter to; a task where they tell it. Nothing is run that is on record."""
        repository, trials = self.ground.repository, self.journal.trials
        instance_id, package = name_bug(repository, bug), self.meta["package"]
        trial = BugTrial(package=package, instance_id=instance_id, mutator=bug.mutator, reason=UNREACHED)
        if instance_id in trials:
            return trials[instance_id], None
        if not (files := self.ground.reach.find_files(bug)):
            return trial, None
        async with self.free:
            candidate = write_candidate(repository, bug, is_one_of_many=True)
            verdict = await self.judge(candidate, files)
        trial = trial.model_copy(update={"reason": verdict.reason})
        if not verdict.kept:
            shutil.rmtree(candidate.layer)
            return trial, None
        return trial, await self.to_task(candidate, verdict, files)

    async def judge(self, candidate: Candidate, files: tuple[str, ...]) -> Validation:
        """Compare with the clean tree. Whether it ends so every time, qualification asks. Raises SandboxError."""
        before = restrict(self.ground.before, files)
        suite = replace(self.ground.suite, files=files, known=frozenset(before.passing))
        return compare_suites(before, await run_suite(self.provider, candidate.layers, suite))

    async def to_task(self, candidate: Candidate, verdict: Validation, files: tuple[str, ...]) -> Task:
        """The task with its issue. Raises UsageError where no issue can be had."""
        before, title = restrict(self.ground.before, files), self.ground.repository.name
        issue = describe_failures(verdict.report, before.with_status("failed", "error"))
        task = to_task(candidate, verdict, before, self.ground.suite, issue=issue, created_by=title, meta=self.meta)
        return task.model_copy(update={"problem_statement": await self.write_issue(task)})
