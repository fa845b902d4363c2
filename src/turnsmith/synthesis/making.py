"""Tasks from bugs in many packages at once, written one by one, so that a killed command can be resumed.

The output folder holds `tasks.jsonl`, `candidates.jsonl` with the result of each tried bug, and `making.json` with counts.
The tasks depend on the packages, the number of tasks, the seed, and on which tests are fast and stable on this machine. A
resumed command first runs the packages' tests without bugs again.
"""

import asyncio
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.grading.testing import run_suite
from turnsmith.runs.folder import append_record, hold, read_json, read_records, write_json
from turnsmith.runs.new_folders import refuse_taken
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.bugs import Bug, combine, spread
from turnsmith.synthesis.called_lines import CalledLines, find_called_lines
from turnsmith.synthesis.issues import IssueWriter, describe_failures, keep_template
from turnsmith.synthesis.mutators import PROCEDURAL
from turnsmith.synthesis.packages import MAX_TRIES_PER_TASK, PreparedPackage, drop_dependent_tests, find_bugs, prepare
from turnsmith.synthesis.repositories import Candidate, name_bug, remove_rejected_layers, write_candidate
from turnsmith.synthesis.validation import KEPT, Validation, compare_suites, restrict, run_in_order, to_task
from turnsmith.tasks.dataset import FILE_NAME, load_tasks, save_tasks
from turnsmith.tracking import Progress
from turnsmith.types import Record, Task

TRIALS, MAKING = "candidates.jsonl", "making.json"
"""Names of the files next to the tasks: results of tried bugs; settings and counts."""


class BugTrial(Record):
    """Result of one tried bug of a package."""

    package: str
    instance_id: str
    mutator: str
    reason: str
    """`kept`, or the reason for rejecting the bug."""


@dataclass(frozen=True)
class MakingSpec:
    """Packages, number and seed of the tasks to make."""

    packages: tuple[str, ...]
    """Packages that get bugs: `name==version`, or paths of git checkouts."""
    num_tasks: int
    """Number of tasks to make per package."""
    seed: int = 0


def open_folder(out: Path, spec: MakingSpec) -> bool:
    """Create the output folder, or accept one that was made with the same seed and number of tasks per package.

    Return True for a new folder. Raises UsageError if the folder holds anything else.
    """
    settings = {"num_tasks": spec.num_tasks, "seed": spec.seed}
    if (out / MAKING).exists():
        found = {name: read_json(out / MAKING).get(name) for name in settings}
        if found != settings:
            settings_text = ", ".join(f"{name} {value}" for name, value in found.items())
            raise UsageError(f"{out} holds tasks made with {settings_text}: give these again, or another --out")
        return False
    refuse_taken(out)
    try:
        write_json(out / MAKING, settings)
    except OSError as error:
        raise UsageError(f"cannot create {out} ({error.strerror}): give another --out") from None
    return True


def read_finished(out: Path) -> list[str]:
    """Read the names of the finished packages from `making.json`."""
    return list(read_json(out / MAKING).get("finished", []))


def write_counts(
    out: Path, spec: MakingSpec, trials: Iterable[BugTrial], finished: Sequence[str], failures: Mapping[str, str]
) -> None:
    """Write the settings and the counts of tried bugs to `making.json`."""
    by_package = defaultdict[str, list[BugTrial]](list)
    for trial in trials:
        by_package[trial.package].append(trial)
    counts = {package: count_trials(its) for package, its in by_package.items()}
    made = {"num_tasks": spec.num_tasks, "seed": spec.seed, "finished": [*finished], "failed": dict(failures)}
    mutators = count_mutators(trial for its in by_package.values() for trial in its)
    write_json(out / MAKING, made | {"packages": counts, "mutators": mutators})


def count_trials(trials: Iterable[BugTrial]) -> dict[str, Any]:
    """Count the results of tried bugs: `{"num_kept": 12, "num_tried": 40, "reasons": …}`."""
    reasons = Counter(trial.reason for trial in trials)
    return {"num_kept": reasons[KEPT], "num_tried": reasons.total(), "reasons": dict(reasons.most_common())}


def count_mutators(trials: Iterable[BugTrial]) -> dict[str, dict[str, int]]:
    """Count the tried and kept bugs per mutator: `{"swap_operands": {"tried": 9, "kept": 4}, …}`."""
    counts: dict[str, dict[str, int]] = {}
    for trial in trials:
        count = counts.setdefault(trial.mutator, {"tried": 0, "kept": 0})
        count["tried"] += 1
        count["kept"] += trial.reason == KEPT
    return dict(sorted(counts.items()))


UNREACHED = "no test reaches it"
COMBINED_SHARE = 0.2
"""Share of tasks with two bugs."""
AHEAD = 4
"""Bugs in progress per worker. Results are used in order, so with one bug per worker, a slow bug would leave the others idle."""


async def make_bugs(
    spec: MakingSpec,
    out: Path,
    provider: SandboxProvider,
    *,
    num_workers: int,
    write_issue: IssueWriter = keep_template,
    on_trial: Callable[[BugTrial], None] = lambda trial: None,
) -> dict[str, str]:
    """Make tasks in the folder `out`, or resume there; return each package without tasks and the reason.

    A package may give fewer tasks than requested. A new folder is removed if no bug was tried. Raises UsageError if `out` is
    in use or no task was made; raises SandboxError.
    """
    is_new = open_folder(out, spec)
    with (out / TRIALS).open("ab") as held:
        hold(held)
        trials = {trial.instance_id: trial for trial in read_records(out / TRIALS, BugTrial)}
        journal = Journal(out, trials, {task.instance_id for task in read_records(out / FILE_NAME, Task)}, on_trial)
        failures = await make_packages(spec, journal, provider, num_workers, write_issue)
    if not journal.tasks:
        if is_new and not journal.trials:
            shutil.rmtree(out)
        raise UsageError(
            "; ".join(failures.values())
            or f"the tests of {', '.join(spec.packages)} detect no bug: take other packages"
        )
    order = {package: place for place, package in enumerate(spec.packages)}
    save_tasks(out, sorted(load_tasks(out), key=lambda task: order.get(task.meta["package"], len(order))))
    return failures


@dataclass
class Journal:
    """Journal of tried bugs and finished tasks, kept in the output folder."""

    folder: Path
    trials: dict[str, BugTrial]
    """Task id of each tried bug → its result."""
    tasks: set[str]
    """Ids of the tasks in the task file."""
    on_trial: Callable[[BugTrial], None]

    def keep(self, trial: BugTrial, task: Task | None) -> None:
        """Record a tried bug: append its task, if there is one, then its result."""
        if task and task.instance_id not in self.tasks:
            append_record(self.folder / FILE_NAME, task)
            self.tasks.add(task.instance_id)
        if trial.instance_id not in self.trials:
            append_record(self.folder / TRIALS, trial)
            self.trials[trial.instance_id] = trial
        self.on_trial(trial)


async def make_packages(
    spec: MakingSpec, journal: Journal, provider: SandboxProvider, num_workers: int, write_issue: IssueWriter
) -> dict[str, str]:
    """Make the tasks of all unfinished packages. Map each package without tasks to the reason. Raises SandboxError."""
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
    """Make the tasks of one package. Return the reason if there are none, else "". Raises SandboxError."""
    try:
        prepared = await drop_dependent_tests(await prepare(package, journal.folder, provider), provider)
    except UsageError as error:
        return str(error)
    repository, meta = prepared.repository, {"kind": "package", "package": package, "seed": spec.seed}
    called_lines = await find_called_lines(provider, (repository.layer,), prepared.suite)
    tester = BugTester(prepared, called_lines, journal, provider, free, num_ahead, write_issue, meta)
    found = await asyncio.to_thread(find_bugs, prepared, PROCEDURAL)
    bugs = spread(found, Random(f"{repository.name} {spec.seed}"))
    singles = list(islice(bugs, spec.num_tasks * MAX_TRIES_PER_TASK))
    num_combined = round(COMBINED_SHARE * spec.num_tasks)
    kept, num_tried = await tester.collect(singles, spec.num_tasks - num_combined)
    pairs = combine(kept, Random(f"{repository.name} {spec.seed} pairs"))
    combined, _ = await tester.collect(islice(pairs, 3 * num_combined), num_combined)
    await tester.collect(singles[num_tried:], spec.num_tasks - len(kept) - len(combined))
    remove_rejected_layers(repository, journal.tasks)
    return "" if kept else f"the tests of {repository.name} detect no bug: take another package"


@dataclass(frozen=True)
class BugTester:
    """Tester of one package's bugs. Each trial runs the package's tests with one bug."""

    prepared: PreparedPackage
    called_lines: CalledLines
    journal: Journal
    provider: SandboxProvider
    free: asyncio.Semaphore
    """Semaphore that limits the number of concurrent test runs, over all packages."""
    num_ahead: int
    """Maximum number of this package's bugs in progress."""
    write_issue: IssueWriter
    meta: dict[str, Any]
    """Entries to add to `Task.meta` of each task."""

    async def collect(self, bugs: Iterable[Bug], num_wanted: int) -> tuple[list[Bug], int]:
        """Try bugs in order until `num_wanted` are kept. Return the kept bugs and the number of tried bugs."""
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
        """Run the test files that can detect a bug; return a task if one does. For a bug in the journal, return its trial."""
        repository, trials = self.prepared.repository, self.journal.trials
        instance_id, package = name_bug(repository, bug), self.meta["package"]
        trial = BugTrial(package=package, instance_id=instance_id, mutator=bug.mutator, reason=UNREACHED)
        if instance_id in trials:
            return trials[instance_id], None
        if not (files := self.called_lines.find_files(bug)):
            return trial, None
        async with self.free:
            candidate = write_candidate(repository, bug, is_one_of_many=True)
            verdict = await self.compare(candidate, files)
        trial = trial.model_copy(update={"reason": verdict.reason})
        if not verdict.is_kept:
            shutil.rmtree(candidate.layer)
            return trial, None
        return trial, await self.to_task(candidate, verdict, files)

    async def compare(self, candidate: Candidate, files: tuple[str, ...]) -> Validation:
        """Run test files with a bug and compare the results with those of the package without bug. Raises SandboxError."""
        before = restrict(self.prepared.before, files)
        suite = replace(self.prepared.suite, files=files, known=frozenset(before.passing))
        return compare_suites(before, await run_suite(self.provider, candidate.layers, suite))

    async def to_task(self, candidate: Candidate, verdict: Validation, files: tuple[str, ...]) -> Task:
        """Make the task of a detected bug, with its issue text. Raises UsageError if no issue can be written."""
        before, title = restrict(self.prepared.before, files), self.prepared.repository.name
        issue = describe_failures(verdict.report, before.with_status("failed", "error"))
        task = to_task(candidate, verdict, before, self.prepared.suite, issue=issue, created_by=title, meta=self.meta)
        return task.model_copy(update={"problem_statement": await self.write_issue(task)})


async def make_package_bugs(
    spec: MakingSpec,
    out: Path,
    num_workers: int,
    write_issue: IssueWriter,
    provider: SandboxProvider,
    progress: Progress,
) -> None:
    """Make tasks in the folder `out`, or resume there; show progress and failed packages. Raises UsageError, SandboxError."""
    reasons = Counter[str]()
    with progress.work("making tasks of packages", len(spec.packages) * spec.num_tasks) as work:

        def count(trial: BugTrial) -> None:
            reasons[trial.reason] += 1
            work.advance(int(trial.reason == KEPT), note=f"{reasons[KEPT]} of {reasons.total()} bugs kept")

        failures = await make_bugs(
            spec, out, provider, num_workers=num_workers, write_issue=write_issue, on_trial=count
        )
    for package, reason in failures.items():
        progress.log(f"{package}: {reason}")
