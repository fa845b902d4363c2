"""Mining of tasks from a git history: read commits, build environments, run tests, write tasks and a journal."""

import asyncio
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from turnsmith.environments.building import BuildFailed
from turnsmith.environments.equipping import EnvironmentOptions
from turnsmith.errors import GradingError, TurnsmithError, UsageError
from turnsmith.git.history import Commit, GitHistory, make_diff, read_commits, read_merged_messages
from turnsmith.git.patch_policy import PatchRefused
from turnsmith.grading.cases import Case
from turnsmith.grading.patch_selection import select_gold
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.runs.new_folders import make_folder
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.sandboxes.setup import SetupFailed
from turnsmith.synthesis.mining.bases import UNBUILT, Base, TreeStore, make_base
from turnsmith.synthesis.mining.candidates import Bounds, FixCommit, consider
from turnsmith.synthesis.mining.issues import Issue, Thread, find_issue
from turnsmith.synthesis.mining.measuring import COMMANDS, find_command, measure
from turnsmith.tasks.dataset import FILE_NAME, save_tasks
from turnsmith.tracking import Progress, Work
from turnsmith.types import Task, TaskTree
from turnsmith.types.records import Record

JOURNAL = "mining.jsonl"
"""Name of the journal next to the task file: the result of each candidate, from which a later command resumes."""
KEPT = "kept"
KIND = "mined"


class Mined(Record):
    """Result of one candidate commit in the journal."""

    commit: str
    reason: str
    """`kept`, or the reason for rejecting the commit."""
    detail: str = ""
    asked: str = ""
    """Digest of the search settings; under other settings a rejected commit is tried again."""


class NoTask(TurnsmithError):
    """Error raised if a candidate commit becomes no task. The message is `reason` or `reason: detail`."""


@dataclass(frozen=True)
class Search:
    """Settings of a search for tasks in a git history."""

    revision: str = "HEAD"
    bounds: Bounds = field(default_factory=Bounds)
    options: EnvironmentOptions = field(default_factory=EnvironmentOptions)
    commands: tuple[tuple[str, str], ...] = COMMANDS
    """Pairs (test command, log parser), in the order in which they are tried."""
    num_tasks: int | None = None
    num_commits: int | None = None
    """Number of newest commits on the main line to consider; None for all."""
    repeats: int = 2
    timeout_s: float = 300.0
    """Time limit of one test run, in seconds."""
    num_workers: int = 2

    @property
    def digest(self) -> str:
        """Return a digest of the settings that decide whether a candidate commit is kept."""
        asked = [asdict(self.options), self.commands, self.timeout_s]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class MiningJob:
    """Inputs of mining: git history, output folder, search settings, issue texts."""

    history: GitHistory
    folder: Path
    search: Search
    threads: Mapping[int, Thread]
    store: TreeStore


async def mine_tasks(job: MiningJob, provider: SandboxProvider, progress: Progress) -> tuple[list[Task], Counter[str]]:
    """Find tasks in a git history. Return all tasks, including those of earlier runs, and counts of commits by result.

    Each task is written as soon as it is found. Raises UsageError, SandboxError.
    """
    with (make_folder(job.folder) / JOURNAL).open("ab") as journal:
        hold(journal)
        refuse_others(job)
        considered = await asyncio.to_thread(consider_commits, job)
        done, asked = read_journal(job.folder), job.search.digest
        candidates = [each for each in considered.values() if isinstance(each, FixCommit)]
        untried = [each for each in candidates if not is_settled(done.get(each.commit.commit), asked)]
        await _work_through(job, untried, sum(record.reason == KEPT for record in done.values()), provider, progress)
        done = read_journal(job.folder)
        tasks = _sort_tasks(job.folder)
    reasons = Counter(
        reason if isinstance(reason, str) else done[commit].reason if commit in done else "not tried"
        for commit, reason in considered.items()
    )
    return tasks, reasons


def consider_commits(job: MiningJob) -> dict[str, FixCommit | str]:
    """Read the newest commits; map each hash to a candidate for a task or to the reason for rejection."""
    commits = islice(read_commits(job.history, job.search.revision), job.search.num_commits)
    return {commit.commit: consider(commit, job.search.bounds) for commit in commits}


def refuse_others(job: MiningJob) -> None:
    """Raise UsageError if the output folder holds tasks that were not mined from this history."""
    for task in read_records(job.folder / FILE_NAME, Task):
        if task.meta.get("kind") != KIND or task.repo != job.history.name:
            raise UsageError(
                f"{job.folder} holds {task.instance_id} of {task.repo}, which is not mined from {job.history.name}: give a new "
                "--out, and join task files with `tasks merge`"
            )


def read_journal(folder: Path) -> dict[str, Mined]:
    """Read the last result of each commit from the journal, without kept commits whose task is missing from the task file."""
    there = {task.instance_id for task in read_records(folder / FILE_NAME, Task)}
    records = {record.commit: record for record in read_records(folder / JOURNAL, Mined)}
    return {commit: each for commit, each in records.items() if each.reason != KEPT or each.detail in there}


def is_settled(record: Mined | None, asked: str) -> bool:
    """Return True if a commit was kept, or rejected under the settings with digest `asked`. Failed builds are tried again."""
    if record is None or record.reason == UNBUILT:
        return False
    return record.reason == KEPT or record.asked == asked


async def _work_through(
    job: MiningJob, candidates: Sequence[FixCommit], num_kept: int, provider: SandboxProvider, progress: Progress
) -> None:
    """Try candidate commits, newest first, until enough tasks are kept; then finish the commits in progress."""
    waiting, num_tried, num_wanted = iter(candidates), 0, job.search.num_tasks
    num_done, _ = measure_progress(num_wanted, len(candidates), num_tried, num_kept)

    async def mine(work: Work) -> None:
        nonlocal num_kept, num_tried, num_done
        for candidate in waiting:
            if num_wanted is not None and num_kept >= num_wanted:
                break
            mined = await _try_candidate(job, candidate, provider)
            append_record(job.folder / JOURNAL, mined)
            num_tried, num_kept, num_before = num_tried + 1, num_kept + (mined.reason == KEPT), num_done
            num_done, note = measure_progress(num_wanted, len(candidates), num_tried, num_kept)
            work.advance(num_done - num_before, note)

    total = len(candidates) if num_wanted is None else num_wanted
    with progress.work(f"mining {job.history.name}", total, num_done) as work:
        async with asyncio.TaskGroup() as group:
            for _ in range(job.search.num_workers):
                group.create_task(mine(work))


def measure_progress(num_wanted: int | None, num_candidates: int, num_tried: int, num_kept: int) -> tuple[int, str]:
    """Return number and text for a progress bar. It counts found tasks if `num_wanted` is given, else tried commits."""
    if num_wanted is None:
        return num_tried, f"{num_kept} tasks"
    return min(num_kept, num_wanted), f"{num_tried} of {num_candidates} commits tried"


async def _try_candidate(job: MiningJob, candidate: FixCommit, provider: SandboxProvider) -> Mined:
    """Try a candidate commit: write its task, or remove its folders if it is rejected. Return the result."""
    # For example `owner__name-1a2b3c4d`.
    name = re.sub(r"[^\w.-]", "-", job.history.name.replace("/", "__")) + f"-{candidate.commit.commit[:8]}"
    try:
        task = await make_task(job, candidate, name, provider)
        append_record(job.folder / FILE_NAME, task)
        reason, detail = KEPT, name
    except NoTask as found:
        reason, _, detail = str(found).partition(": ")
    except BuildFailed as error:
        reason, detail = UNBUILT, str(error)
    except (PatchRefused, SetupFailed, UsageError, GradingError) as error:
        reason, detail = "cannot be used", str(error)
    if reason != KEPT:
        shutil.rmtree(job.folder / "layers" / name, ignore_errors=True)
    return Mined(commit=candidate.commit.commit, reason=reason, detail=detail, asked=job.search.digest)


async def make_task(job: MiningJob, candidate: FixCommit, name: str, provider: SandboxProvider) -> Task:
    """Build a candidate's environment, run its tests, and make its task.

    Raises NoTask, BuildFailed, PatchRefused, UsageError, SandboxError, GradingError.
    """
    commit, options = candidate.commit, job.search.options
    base = await make_base(job.store, name, job.history, commit.parent, date=commit.date, options=options)
    draft, gold = await asyncio.to_thread(draft_task, job, candidate, name, base)
    case = Case(TaskTree(draft, base.layers), provider, job.search.timeout_s)
    case, first = await find_command(case, gold, job.search.commands)
    measured = await measure(case, gold, first, repeats=job.search.repeats)
    if measured.reason:
        raise NoTask(measured.reason)
    found = {"FAIL_TO_PASS": [*measured.fail_to_pass], "PASS_TO_PASS": [*measured.pass_to_pass]}
    return case.task.model_copy(update=found | base.describe(job.folder))


def draft_task(job: MiningJob, candidate: FixCommit, name: str, base: Base) -> tuple[Task, str]:
    """Return a candidate's task, with no expected tests yet, and its gold patch. Raises NoTask, PatchRefused, SetupFailed."""
    commit = candidate.commit
    issue = find_text(job, commit)
    columns = base.describe(job.folder) | {"environment": str(base.environment)}
    task = Task(
        instance_id=name,
        repo=job.history.name,
        problem_statement=issue.text,
        FAIL_TO_PASS=[],
        PASS_TO_PASS=[],
        patch=make_diff(job.history, commit, candidate.source),
        test_patch=make_diff(job.history, commit, candidate.tests),
        test_files=[*candidate.test_files],
        created_by="mined",
        meta={
            "kind": KIND,
            "commit": commit.commit,
            "parent": commit.parent,
            "date": commit.date,
            "issue_source": issue.source,
            "is_vague": issue.is_vague,
            "absent": [*base.absent],
        },
        **columns,
    )
    gold = select_gold(TaskTree(task, base.layers))
    if not gold:
        raise NoTask("nothing of the gold patch may be graded")
    return task, gold


def find_text(job: MiningJob, commit: Commit) -> Issue:
    """Find the issue text of a commit; for a merge without text, use the texts of the merged commits. Raises NoTask."""
    issue = find_issue(commit.message, job.threads)
    if not issue.text.strip():
        issue = find_issue(read_merged_messages(job.history, commit), job.threads)
    if not issue.text.strip():
        raise NoTask("no issue text")
    return issue


def _sort_tasks(folder: Path) -> list[Task]:
    """Sort the task file by date, newest first; drop duplicates that a killed process left. Return the tasks."""
    tasks = {task.instance_id: task for task in read_records(folder / FILE_NAME, Task)}
    ordered = sorted(tasks.values(), key=lambda task: (task.meta["date"], task.instance_id), reverse=True)
    if ordered:
        save_tasks(folder, ordered)
    return ordered
