"""From a history to tasks: read commits, equip their trees, run their tests, write down what became of each."""

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event

from turnsmith.environments.building import BuildFailed, Environment
from turnsmith.environments.equipping import Wishes, equip
from turnsmith.errors import GradingError, UsageError
from turnsmith.rewards.cases import Case
from turnsmith.rewards.hunks import select_gold
from turnsmith.rewards.patches import PatchRefused
from turnsmith.runs import append_record, hold, read_records
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.mining.candidates import Bounds, FixCommit, consider
from turnsmith.synthesis.mining.history import GitHistory, find_version, make_diff, read_commits, read_snapshot
from turnsmith.synthesis.mining.issues import Thread, find_issue
from turnsmith.synthesis.mining.measuring import COMMANDS, Measured, find_command, measure
from turnsmith.synthesis.mining.trees import TreeStore, complete_layers
from turnsmith.tasks.dataset import FILE_NAME, save_tasks
from turnsmith.tasks.history import TreeFile
from turnsmith.tracking import Progress
from turnsmith.types import Task
from turnsmith.types.records import Record

JOURNAL = "mining.jsonl"
"""What became of each candidate, beside the task file; a second run goes on behind it."""
KEPT = "kept"
WORKDIR = "/testbed"


class Mined(Record):
    """What became of one commit."""

    commit: str
    reason: str
    """`kept`, or why not, in words that can be counted."""
    detail: str = ""


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


@dataclass(frozen=True)
class Mine:
    """One history, and where its tasks go."""

    history: GitHistory
    folder: Path
    search: Search
    threads: Mapping[int, Thread]
    store: TreeStore


async def mine_tasks(mine: Mine, provider: SandboxProvider, progress: Progress) -> tuple[list[Task], Counter[str]]:
    """The tasks of a history, those of earlier runs included, and what became of every commit, by reason.

    Each task is in the file as soon as it is finished. Raises UsageError, SandboxError.
    """
    mine.folder.mkdir(parents=True, exist_ok=True)
    with (mine.folder / JOURNAL).open("ab") as journal:
        hold(journal)
        commits = islice(read_commits(mine.history, mine.search.revision), mine.search.num_commits)
        considered = [(commit.commit, consider(commit, mine.search.bounds)) for commit in commits]
        done = {record.commit: record for record in read_records(mine.folder / JOURNAL, Mined)}
        candidates = [each for commit, each in considered if isinstance(each, FixCommit) and commit not in done]
        kept = sum(record.reason == KEPT for record in done.values())
        await _work_through(mine, candidates, kept, provider, progress)
        done = {record.commit: record for record in read_records(mine.folder / JOURNAL, Mined)}
    reasons = Counter(
        reason if isinstance(reason, str) else done[commit].reason if commit in done else "not tried"
        for commit, reason in considered
    )
    return _put_in_order(mine.folder), reasons


async def _work_through(
    mine: Mine, candidates: Sequence[FixCommit], num_kept: int, provider: SandboxProvider, progress: Progress
) -> None:
    """`num_workers` at a time, the newest first, until enough are kept."""
    label, waiting = f"mining {mine.history.name}", iter(candidates)
    progress.begin(label, len(candidates))

    async def work() -> None:
        nonlocal num_kept
        while (mine.search.num_tasks or num_kept + 1) > num_kept and (candidate := next(waiting, None)):
            mined = await _try_candidate(mine, candidate, provider)
            append_record(mine.folder / JOURNAL, mined)
            num_kept += mined.reason == KEPT
            progress.advance(label, note=f"{num_kept} tasks")

    async with asyncio.TaskGroup() as group:
        for _ in range(mine.search.num_workers):
            group.create_task(work())
    progress.end(label)


async def _try_candidate(mine: Mine, candidate: FixCommit, provider: SandboxProvider) -> Mined:
    """Make a task of it and write it down, or say why there is none; then nothing of it stays."""
    name, commit = name_task(mine.history, candidate), candidate.commit.commit
    try:
        made = await make_task(mine, candidate, name, provider)
    except BuildFailed as error:
        made = Mined(commit=commit, reason="environment could not be built", detail=str(error))
    except (PatchRefused, UsageError, GradingError) as error:
        made = Mined(commit=commit, reason="cannot be used", detail=str(error))
    if isinstance(made, Task):
        append_record(mine.folder / FILE_NAME, made)
        return Mined(commit=commit, reason=KEPT, detail=name)
    shutil.rmtree(mine.folder / "layers" / name, ignore_errors=True)
    return made


def name_task(history: GitHistory, candidate: FixCommit) -> str:
    """`owner__name-1a2b3c4d`."""
    return re.sub(r"[^\w.-]", "-", history.name.replace("/", "__")) + f"-{candidate.commit.commit[:8]}"


async def make_task(mine: Mine, candidate: FixCommit, name: str, provider: SandboxProvider) -> Task | Mined:
    """Raises BuildFailed, PatchRefused, UsageError, SandboxError, GradingError."""
    commit = candidate.commit
    snapshot = await asyncio.to_thread(read_snapshot, mine.history, commit.parent)
    layer = await asyncio.to_thread(mine.store.write, name, snapshot.tree)
    environment = await _equip(mine, candidate, snapshot.tree, layer)
    layers, base_commit = await asyncio.to_thread(complete_layers, layer, snapshot.tree, environment)
    draft = draft_task(mine, candidate, name, base_commit, environment, snapshot.absent)
    case = Case(draft, layers, provider, mine.search.timeout_s)
    gold = select_gold(draft, layers)
    if not gold:
        return Mined(commit=commit.commit, reason="nothing of the gold patch may be graded")
    case, first = await find_command(case, gold, mine.search.commands)
    measured = await measure(case, gold, first, repeats=mine.search.repeats)
    if measured.reason:
        reason, _, detail = measured.reason.partition(": ")
        return Mined(commit=commit.commit, reason=reason, detail=detail)
    return finish_task(case.task, measured, layers, environment, mine.folder)


async def _equip(mine: Mine, candidate: FixCommit, tree: Mapping[str, TreeFile], layer: Path) -> Environment:
    """In a thread, which ends when nobody waits for it any longer."""
    stopped = Event()
    work = partial(
        equip,
        {path: file.content for path, file in tree.items()},
        (layer,),
        WORKDIR,
        mine.folder,
        date=candidate.commit.date,
        version=find_version(mine.history, candidate.commit.parent),
        wishes=mine.search.wishes,
        stopped=stopped,
    )
    try:
        return await asyncio.to_thread(work)
    finally:
        stopped.set()


def draft_task(
    mine: Mine, candidate: FixCommit, name: str, base_commit: str, environment: Environment, absent: Sequence[str]
) -> Task:
    """The task but for its layers and its expected tests."""
    commit = candidate.commit
    issue = find_issue(commit.message, mine.threads)
    return Task(
        instance_id=name,
        repo=mine.history.name,
        base_commit=base_commit,
        problem_statement=issue.text,
        FAIL_TO_PASS=[],
        PASS_TO_PASS=[],
        patch=make_diff(mine.history, commit, candidate.source),
        test_patch=make_diff(mine.history, commit, candidate.tests),
        layers=["."],
        workdir=WORKDIR,
        environment=str(environment.folder),
        test_files=[*candidate.test_files],
        created_by="mined",
        meta={
            "kind": "mined",
            "commit": commit.commit,
            "parent": commit.parent,
            "date": commit.date,
            "issue_source": issue.source,
            "is_vague": issue.is_vague,
            "absent": [*absent],
        },
    )


def finish_task(
    draft: Task, measured: Measured, layers: Sequence[Path], environment: Environment, folder: Path
) -> Task:
    """With paths relative to the task file."""
    return draft.model_copy(
        update={
            "FAIL_TO_PASS": [*measured.fail_to_pass],
            "PASS_TO_PASS": [*measured.pass_to_pass],
            "layers": [layer.relative_to(folder).as_posix() for layer in layers],
            "environment": environment.folder.relative_to(folder).as_posix(),
        }
    )


def _put_in_order(folder: Path) -> list[Task]:
    """The task file by date, the newest first; a task that a kill had written twice stands there once."""
    tasks = {task.instance_id: task for task in read_records(folder / FILE_NAME, Task)}
    ordered = sorted(tasks.values(), key=lambda task: (task.meta["date"], task.instance_id), reverse=True)
    if ordered:
        save_tasks(folder, ordered)
    return ordered
