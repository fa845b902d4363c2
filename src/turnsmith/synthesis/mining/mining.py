"""From a history to tasks: read commits, equip their trees, run their tests, write down what became of each."""

import asyncio
import hashlib
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path

from turnsmith.environments.building import BuildFailed
from turnsmith.environments.equipping import Wishes
from turnsmith.errors import GradingError, TurnsmithError, UsageError
from turnsmith.git.history import Commit, GitHistory, make_diff, read_commits, read_merged_messages
from turnsmith.git.patch_policy import PatchRefused
from turnsmith.grading.cases import Case
from turnsmith.grading.patch_selection import select_gold
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.runs.new_folders import make_folder
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.sandboxes.setup import SetupFailed
from turnsmith.synthesis.mining.bases import UNBUILT, Base, make_base
from turnsmith.synthesis.mining.candidates import Bounds, FixCommit, consider
from turnsmith.synthesis.mining.issues import Issue, Thread, find_issue
from turnsmith.synthesis.mining.measuring import COMMANDS, find_command, measure
from turnsmith.synthesis.mining.trees import TreeStore
from turnsmith.tasks.dataset import FILE_NAME, save_tasks
from turnsmith.tracking import Progress
from turnsmith.types import Task, TaskTree
from turnsmith.types.records import Record

JOURNAL = "mining.jsonl"
"""What became of each candidate, beside the task file; a second run goes on behind it."""
KEPT = "kept"
KIND = "mined"


class Mined(Record):
    """What became of one commit."""

    commit: str
    reason: str
    """`kept`, or why not, in words that can be counted."""
    detail: str = ""
    asked: str = ""
    """Digest of what was asked for: another wish is another try."""


class NoTask(TurnsmithError):
    """A candidate that the runs have ruled out; the message is the reason, and a detail after a colon."""


@dataclass(frozen=True)
class Search:
    """What to look for, and how."""

    revision: str = "HEAD"
    bounds: Bounds = field(default_factory=Bounds)
    wishes: Wishes = field(default_factory=Wishes)
    commands: tuple[tuple[str, str], ...] = COMMANDS
    """Test commands to try, each with its log parser."""
    num_tasks: int | None = None
    num_commits: int | None = None
    """Of the main line, from the newest."""
    repeats: int = 2
    timeout_s: float = 300.0
    """Of one run of the tests."""
    num_workers: int = 2

    @property
    def digest(self) -> str:
        """Of what decides whether a candidate can be kept."""
        asked = [asdict(self.wishes), self.commands, self.timeout_s]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Mine:
    """One history, and where its tasks go."""

    history: GitHistory
    folder: Path
    search: Search
    threads: Mapping[int, Thread]
    store: TreeStore


@dataclass
class Tally:
    """Counts of a search under way. Progress runs towards the tasks that are wanted, or else through all commits."""

    progress: Progress
    label: str
    num_wanted: int | None
    num_candidates: int
    num_kept: int
    """Tasks, those of earlier runs included."""
    num_tried: int = 0

    @property
    def is_enough(self) -> bool:
        return self.num_wanted is not None and self.num_kept >= self.num_wanted

    @property
    def note(self) -> str:
        """Give the count that the bar does not show."""
        if self.num_wanted is None:
            return f"{self.num_kept} tasks"
        return f"{self.num_tried} of {self.num_candidates} commits tried"

    def begin(self) -> None:
        """Show what earlier runs have done."""
        self.progress.begin(self.label, self.num_candidates if self.num_wanted is None else self.num_wanted)
        if self.num_wanted is not None:
            self.progress.advance(self.label, min(self.num_kept, self.num_wanted), self.note)

    def count(self, mined: Mined) -> None:
        """Count one commit; a task beyond those that are wanted moves no bar."""
        is_task = mined.reason == KEPT
        is_step = self.num_wanted is None or (is_task and not self.is_enough)
        self.num_tried += 1
        self.num_kept += is_task
        self.progress.advance(self.label, int(is_step), self.note)

    def end(self) -> None:
        """Show the last counts."""
        self.progress.end(self.label)


async def mine_tasks(mine: Mine, provider: SandboxProvider, progress: Progress) -> tuple[list[Task], Counter[str]]:
    """The tasks of a history, those of earlier runs included, and what became of every commit, by reason.

    Each task is in the file as soon as it is finished. Raises UsageError, SandboxError.
    """
    with (make_folder(mine.folder) / JOURNAL).open("ab") as journal:
        hold(journal)
        refuse_others(mine)
        considered = await asyncio.to_thread(consider_commits, mine)
        done, asked = read_journal(mine.folder), mine.search.digest
        candidates = [each for each in considered.values() if isinstance(each, FixCommit)]
        untried = [each for each in candidates if not is_settled(done.get(each.commit.commit), asked)]
        await _work_through(mine, untried, sum(record.reason == KEPT for record in done.values()), provider, progress)
        done = read_journal(mine.folder)
        tasks = _put_in_order(mine.folder)
    reasons = Counter(
        reason if isinstance(reason, str) else done[commit].reason if commit in done else "not tried"
        for commit, reason in considered.items()
    )
    return tasks, reasons


def consider_commits(mine: Mine) -> dict[str, FixCommit | str]:
    """The newest commits, each with its candidate or with the reason why it is none."""
    commits = islice(read_commits(mine.history, mine.search.revision), mine.search.num_commits)
    return {commit.commit: consider(commit, mine.search.bounds) for commit in commits}


def refuse_others(mine: Mine) -> None:
    """Raises UsageError where the folder holds tasks that were not mined from this history."""
    for task in read_tasks(mine.folder):
        if task.meta.get("kind") != KIND or task.repo != mine.history.name:
            raise UsageError(
                f"{mine.folder} holds {task.instance_id} of {task.repo}, which is not mined from {mine.history.name}: give a new "
                "--out, and put task files together by `tasks merge`"
            )


def read_tasks(folder: Path) -> Iterator[Task]:
    """What is in the task file so far."""
    return read_records(folder / FILE_NAME, Task)


def read_journal(folder: Path) -> dict[str, Mined]:
    """The last record of each commit; of a task that is no longer in the file there is none."""
    there = {task.instance_id for task in read_tasks(folder)}
    records = {record.commit: record for record in read_records(folder / JOURNAL, Mined)}
    return {commit: each for commit, each in records.items() if each.reason != KEPT or each.detail in there}


def is_settled(record: Mined | None, asked: str) -> bool:
    """Would another try end alike? Not where something else is asked, nor where the network may have failed."""
    if record is None or record.reason == UNBUILT:
        return False
    return record.reason == KEPT or record.asked == asked


async def _work_through(
    mine: Mine, candidates: Sequence[FixCommit], num_kept: int, provider: SandboxProvider, progress: Progress
) -> None:
    """Try candidates, the newest first, until enough are kept; those that are under way then are finished."""
    waiting = iter(candidates)
    tally = Tally(progress, f"mining {mine.history.name}", mine.search.num_tasks, len(candidates), num_kept)

    async def work() -> None:
        for candidate in waiting:
            if tally.is_enough:
                break
            mined = await _try_candidate(mine, candidate, provider)
            append_record(mine.folder / JOURNAL, mined)
            tally.count(mined)

    tally.begin()
    async with asyncio.TaskGroup() as group:
        for _ in range(mine.search.num_workers):
            group.create_task(work())
    tally.end()


async def _try_candidate(mine: Mine, candidate: FixCommit, provider: SandboxProvider) -> Mined:
    """Make a task of it and write it down, or say why there is none; then nothing of it stays."""
    name = name_task(mine.history, candidate)
    try:
        task = await make_task(mine, candidate, name, provider)
        append_record(mine.folder / FILE_NAME, task)
        reason, detail = KEPT, name
    except NoTask as found:
        reason, _, detail = str(found).partition(": ")
    except BuildFailed as error:
        reason, detail = UNBUILT, str(error)
    except (PatchRefused, SetupFailed, UsageError, GradingError) as error:
        reason, detail = "cannot be used", str(error)
    if reason != KEPT:
        shutil.rmtree(mine.folder / "layers" / name, ignore_errors=True)
    return Mined(commit=candidate.commit.commit, reason=reason, detail=detail, asked=mine.search.digest)


def name_task(history: GitHistory, candidate: FixCommit) -> str:
    """`owner__name-1a2b3c4d`."""
    return re.sub(r"[^\w.-]", "-", history.name.replace("/", "__")) + f"-{candidate.commit.commit[:8]}"


async def make_task(mine: Mine, candidate: FixCommit, name: str, provider: SandboxProvider) -> Task:
    """Raises NoTask, BuildFailed, PatchRefused, UsageError, SandboxError, GradingError."""
    commit, wishes = candidate.commit, mine.search.wishes
    base = await make_base(mine.store, name, mine.history, commit.parent, date=commit.date, wishes=wishes)
    draft, gold = await asyncio.to_thread(draft_task, mine, candidate, name, base)
    case = Case(TaskTree(draft, base.layers), provider, mine.search.timeout_s)
    case, first = await find_command(case, gold, mine.search.commands)
    measured = await measure(case, gold, first, repeats=mine.search.repeats)
    if measured.reason:
        raise NoTask(measured.reason)
    found = {"FAIL_TO_PASS": [*measured.fail_to_pass], "PASS_TO_PASS": [*measured.pass_to_pass]}
    return case.task.model_copy(update=found | base.describe(mine.folder))


def draft_task(mine: Mine, candidate: FixCommit, name: str, base: Base) -> tuple[Task, str]:
    """The task but for its expected tests, and what of its gold patch is graded. Raises NoTask, PatchRefused, SetupFailed."""
    commit = candidate.commit
    issue = find_text(mine, commit)
    columns = base.describe(mine.folder) | {"environment": str(base.environment)}
    task = Task(
        instance_id=name,
        repo=mine.history.name,
        problem_statement=issue.text,
        FAIL_TO_PASS=[],
        PASS_TO_PASS=[],
        patch=make_diff(mine.history, commit, candidate.source),
        test_patch=make_diff(mine.history, commit, candidate.tests),
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


def find_text(mine: Mine, commit: Commit) -> Issue:
    """What people wrote of a commit; of a merge that says nothing itself, what they wrote of the merged ones. Raises NoTask."""
    issue = find_issue(commit.message, mine.threads)
    if not issue.text.strip():
        issue = find_issue(read_merged_messages(mine.history, commit), mine.threads)
    if not issue.text.strip():
        raise NoTask("no issue text")
    return issue


def _put_in_order(folder: Path) -> list[Task]:
    """The task file by date, the newest first; a task that a kill had written twice stands there once."""
    tasks = {task.instance_id: task for task in read_tasks(folder)}
    ordered = sorted(tasks.values(), key=lambda task: (task.meta["date"], task.instance_id), reverse=True)
    if ordered:
        save_tasks(folder, ordered)
    return ordered
