"""Tasks of public sets without their images: the tree from a history that is at hand, what it needs installed by the row."""

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turnsmith.environments.building import BuildFailed
from turnsmith.environments.equipping import Wishes
from turnsmith.errors import GradingError, UsageError
from turnsmith.git.history import GitHistory
from turnsmith.grading.cases import Case
from turnsmith.grading.grading import try_plugin
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.runs.new_folders import make_folder, to_folder_name
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.sandboxes.setup import SetupFailed
from turnsmith.synthesis.mining.bases import UNBUILT, Base, make_base
from turnsmith.synthesis.mining.trees import TreeStore
from turnsmith.tasks.dataset import FILE_NAME, save_tasks
from turnsmith.tasks.sets.base import Refused
from turnsmith.tasks.sets.cells import read_dict, read_list
from turnsmith.tasks.sets.swe_bench import CONDA
from turnsmith.tracking import Progress
from turnsmith.types import Task, TaskTree
from turnsmith.types.records import Record

JOURNAL = "rebuilding.jsonl"
REBUILT = "rebuilt"
UNGRADABLE = "cannot be graded"
DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-\d\d")
TRIAL_TIMEOUT_S = 300.0
"""Of a run of the grader's own tests in a new environment."""
PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+-]+)")


class Rebuilt(Record):
    """What became of one row."""

    instance_id: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Yard:
    """Histories by the name of their repository, and the place and the sandboxes of the tasks."""

    histories: Mapping[str, GitHistory]
    folder: Path
    store: TreeStore
    provider: SandboxProvider
    num_workers: int
    wishes: Wishes = field(default_factory=Wishes)
    """Its Python and commands replace those of the rows."""


async def rebuild_tasks(yard: Yard, tasks: Sequence[Task], progress: Progress) -> Counter[str]:
    """Rebuild the tasks that are not there yet; returns the number of all by reason. Raises UsageError, SandboxError."""
    with (make_folder(yard.folder) / JOURNAL).open("ab") as journal:
        hold(journal)
        done = read_journal(yard.folder)
        waiting = [task for task in tasks if done.get(task.instance_id) != REBUILT]
        await _work_through(yard, waiting, progress)
        done = read_journal(yard.folder)
        _drop_repeats(yard.folder)
    return Counter(done[task.instance_id] for task in tasks)


def read_journal(folder: Path) -> dict[str, str]:
    """What became of each row in the end."""
    return {record.instance_id: record.reason for record in read_records(folder / JOURNAL, Rebuilt)}


def _drop_repeats(folder: Path) -> None:
    """A task that a kill had written twice stands there once."""
    if tasks := {task.instance_id: task for task in read_records(folder / FILE_NAME, Task)}:
        save_tasks(folder, tasks.values())


async def _work_through(yard: Yard, tasks: Sequence[Task], progress: Progress) -> None:
    label, free = "rebuilding", asyncio.Semaphore(yard.num_workers)
    progress.begin(label, len(tasks))

    async def work(task: Task) -> None:
        async with free:
            append_record(yard.folder / JOURNAL, await _try_row(yard, task))
        progress.advance(label)

    async with asyncio.TaskGroup() as group:
        for task in tasks:
            group.create_task(work(task))
    progress.end(label)


async def _try_row(yard: Yard, task: Task) -> Rebuilt:
    """The task is in the file as soon as it is rebuilt; of another nothing stays."""
    name = task.instance_id
    if to_folder_name(name) != name:
        return Rebuilt(instance_id=name, reason="unusable id", detail="it names the folder of its layers")
    try:
        append_record(yard.folder / FILE_NAME, await rebuild(yard, task))
        return Rebuilt(instance_id=name, reason=REBUILT)
    except Refused as refusal:
        reason, detail = refusal.reason, str(refusal)
    except BuildFailed as error:
        reason, detail = UNBUILT, str(error)
    except (SetupFailed, GradingError) as error:
        reason, detail = UNGRADABLE, str(error)
    except UsageError as error:
        reason, detail = "history or Python missing", str(error)
    shutil.rmtree(yard.folder / "layers" / name, ignore_errors=True)
    return Rebuilt(instance_id=name, reason=reason, detail=detail)


async def rebuild(yard: Yard, task: Task) -> Task:
    """Give the task layers and an environment in place of its image.

    Raises BuildFailed, Refused, UsageError, SandboxError, GradingError.
    """
    history = yard.histories.get(task.repo)
    if history is None:
        raise UsageError(f"no history of {task.repo} was given: add --history {task.repo}=PATH")
    name, date, wishes = task.instance_id, read_date(task), choose_wishes(task, yard.wishes)
    base = await make_base(yard.store, name, history, task.base_commit, date=date, wishes=wishes)
    columns = {
        "image": "",
        "setup": [],
        "test_command": task.test_command.removeprefix(CONDA),
        "meta": task.meta | {"parent": task.base_commit, "absent": [*base.absent]},
    }
    rebuilt = task.model_copy(update=columns | base.describe(yard.folder))
    await refuse_ungradable(rebuilt, base, yard.provider)
    return rebuilt


async def refuse_ungradable(task: Task, base: Base, provider: SandboxProvider) -> None:
    """Refuse a task in whose environment the grader's plugin does not work. Raises GradingError, SandboxError."""
    task = task.model_copy(update={"environment": str(base.environment)})
    case = Case(TaskTree(task, base.layers), provider, TRIAL_TIMEOUT_S)
    if case.is_sealed:
        await try_plugin(case)


def choose_wishes(task: Task, given: Wishes) -> Wishes:
    """Take a Python and commands that a person gave in place of those of the row. Raises Refused."""
    wishes = read_wishes(task)
    return replace(wishes, python=given.python or wishes.python, commands=given.commands)


def read_date(task: Task) -> str:
    """When its issue was opened; empty where the row does not say, as in R2E-Gym and SWE-smith, or counts milliseconds."""
    stated = str((task.model_extra or {}).get("created_at", ""))
    return stated if DATE.match(stated) else ""


def read_wishes(task: Task) -> Wishes:
    """What SWE-rebench has found out about a row: its Python, packages that tests need, the versions that were installed.

    Raises Refused.
    """
    columns: dict[str, Any] = task.model_extra or {}
    config = read_dict(columns, "install_config")
    entries = read_list(config, "pip_packages") if config.get("pip_packages") else []
    packages = [word for entry in entries for word in entry.split()]
    pins = [line.strip() for line in str(columns.get("requirements") or "").splitlines() if PIN.fullmatch(line.strip())]
    return Wishes(python=str(config.get("python") or ""), requirements=tuple(packages), pins=tuple(pins))
