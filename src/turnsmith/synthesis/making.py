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

from turnsmith.errors import UsageError
from turnsmith.rewards.testing import run_suite
from turnsmith.runs import append_record, hold, read_records
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.bugs import Bug, combine, spread
from turnsmith.synthesis.grounds import Ground, prepare
from turnsmith.synthesis.issues import IssueWriter, describe_failures, keep_template
from turnsmith.synthesis.ordering import run_in_order
from turnsmith.synthesis.records import KEPT, TRIALS, BugTrial, MakingSpec, claim_folder, read_finished, write_counts
from turnsmith.synthesis.repositories import Candidate, Repository, name_bug, write_candidate
from turnsmith.synthesis.validation import Validation, compare_suites, drop_unsteady, restrict, to_task
from turnsmith.tasks.dataset import FILE_NAME, load_tasks, save_tasks
from turnsmith.types import Task

UNREACHED = "no test reaches it"
COMBINED_SHARE = 0.2
"""Of the tasks of a package, those of two bugs."""
MAX_TRIES_PER_TASK = 12
"""Bugs tried for each task wanted, before giving up."""


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

    Fewer tasks than asked for are no error. Raises UsageError where `out` is in use or no task was made, SandboxError.
    """
    claim_folder(out, spec)
    with (out / TRIALS).open("ab") as journal:
        hold(journal)
        trials = {trial.instance_id: trial for trial in read_records(out / TRIALS, BugTrial)}
        tasks = {task.instance_id for task in read_records(out / FILE_NAME, Task)}
        making = Making(
            spec, out, provider, num_workers, asyncio.Semaphore(num_workers), write_issue, on_trial, trials, tasks
        )
        finished, failures = read_finished(out), dict[str, str]()
        for trial in trials.values():
            if trial.package in finished:
                on_trial(trial)
        left = [package for package in spec.packages if package not in finished]
        works = run_in_order(left, lambda package: make_package(package, making), num_workers)
        async with aclosing(works):
            async for package, failure in works:
                if failure:
                    failures[package] = failure
                else:
                    finished.append(package)
                write_counts(out, spec, trials.values(), finished, failures)
    if not tasks:
        raise UsageError(
            "; ".join(failures.values()) or f"no bug of {', '.join(spec.packages)} can be told by its tests"
        )
    order = {package: place for place, package in enumerate(spec.packages)}
    save_tasks(out, sorted(load_tasks(out), key=lambda task: order.get(task.meta["package"], len(order))))
    return failures


@dataclass(frozen=True)
class Making:
    """What all packages of a making share."""

    spec: MakingSpec
    folder: Path
    provider: SandboxProvider
    num_workers: int
    free: asyncio.Semaphore
    """As many bugs at once are tried."""
    write_issue: IssueWriter
    on_trial: Callable[[BugTrial], None]
    trials: dict[str, BugTrial]
    """On record, by instance id."""
    tasks: set[str]
    """Instance ids in the task file."""

    def keep(self, trial: BugTrial, task: Task | None) -> None:
        """Write down what became of a bug, the task first."""
        if task and task.instance_id not in self.tasks:
            append_record(self.folder / FILE_NAME, task)
            self.tasks.add(task.instance_id)
        if trial.instance_id not in self.trials:
            append_record(self.folder / TRIALS, trial)
            self.trials[trial.instance_id] = trial
        self.on_trial(trial)


async def make_package(package: str, making: Making) -> str:
    """Make the tasks of one package; returns why there are none, or nothing. Raises SandboxError."""
    try:
        ground = await prepare(package, making.folder, making.provider)
    except UsageError as error:
        return str(error)
    trier, spec = Trier(package, ground, making), making.spec
    num_single = spec.num_tasks - round(COMBINED_SHARE * spec.num_tasks)
    singles = list(spread(ground.found, Random(f"{ground.repository.name} {spec.seed}")))
    singles = singles[: spec.num_tasks * MAX_TRIES_PER_TASK]
    kept, num_tried = await trier.collect(singles, num_single)
    num_combined = spec.num_tasks - num_single
    pairs = list(islice(combine(kept, Random(f"{ground.repository.name} {spec.seed} pairs")), 3 * num_combined))
    combined, _ = await trier.collect(pairs, num_combined)
    await trier.collect(singles[num_tried:], spec.num_tasks - len(kept) - len(combined))
    sweep_layers(ground.repository, making.tasks)
    return "" if kept else f"no bug in {ground.repository.name} can be told by its tests: take another package"


def sweep_layers(repository: Repository, kept: Collection[str]) -> None:
    """Remove the layers of bugs that were under way when enough were kept."""
    for layer in repository.layer.parent.glob(f"{repository.name}.*"):
        if layer.name not in kept and not layer.name.startswith(f"{repository.name}.objects."):
            shutil.rmtree(layer)


@dataclass(frozen=True)
class Trier:
    """Tries the bugs of one package."""

    package: str
    ground: Ground
    making: Making

    async def collect(self, bugs: Sequence[Bug], num_wanted: int) -> tuple[list[Bug], int]:
        """Try bugs in their order until enough are kept; returns those, and how many were tried."""
        kept, num_tried = list[Bug](), 0
        if num_wanted > 0:
            async with aclosing(run_in_order(bugs, self.try_bug, self.making.num_workers)) as results:
                async for bug, (trial, task) in results:
                    self.making.keep(trial, task)
                    num_tried += 1
                    kept += [bug] if trial.reason == KEPT else []
                    if len(kept) >= num_wanted:
                        break
        return kept, num_tried

    async def try_bug(self, bug: Bug) -> tuple[BugTrial, Task | None]:
        """Run the test files that it may matter to; a task where they tell it, twice. Nothing is run that is on record."""
        repository, making = self.ground.repository, self.making
        instance_id = name_bug(repository, bug)
        trial = BugTrial(package=self.package, instance_id=instance_id, mutator=bug.mutator, reason=UNREACHED)
        if instance_id in making.trials:
            return making.trials[instance_id], None
        if not (files := self.ground.reach.find_files(bug)):
            return trial, None
        async with making.free:
            candidate = write_candidate(repository, bug, is_one_of_many=True)
            verdict = await self.judge(candidate, files)
        trial = trial.model_copy(update={"reason": verdict.reason})
        if not verdict.kept:
            shutil.rmtree(candidate.layer)
            return trial, None
        return trial, await self.to_task(candidate, verdict, files)

    async def judge(self, candidate: Candidate, files: tuple[str, ...]) -> Validation:
        """Compare with the clean tree; what tells the two apart must do so again. Raises SandboxError.

        Whether it does by a fresh interpreter, qualification asks.
        """
        before = restrict(self.ground.before, files)
        suite = replace(self.ground.suite, files=files, known=frozenset(before.passing))
        verdict = compare_suites(before, await run_suite(self.making.provider, candidate.layers, suite))
        if not verdict.kept:
            return verdict
        again = await run_suite(self.making.provider, candidate.layers, suite)
        return drop_unsteady(verdict, before, again)

    async def to_task(self, candidate: Candidate, verdict: Validation, files: tuple[str, ...]) -> Task:
        """The task with its issue. Raises UsageError where no issue can be had."""
        before, title = restrict(self.ground.before, files), self.ground.repository.name
        meta = {"kind": "package", "package": self.package, "seed": self.making.spec.seed}
        issue = describe_failures(verdict.report, before.with_status("failed", "error"))
        task = to_task(candidate, verdict, before, self.ground.suite, issue=issue, created_by=title, meta=meta)
        return task.model_copy(update={"problem_statement": await self.making.write_issue(task)})
