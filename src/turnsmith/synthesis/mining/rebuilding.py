"""Tasks of public sets without their images: the tree from a history that is at hand, what it needs installed by the row."""

import asyncio
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from turnsmith.environments.building import BuildFailed
from turnsmith.environments.equipping import Wishes, equip
from turnsmith.errors import UsageError
from turnsmith.runs import append_record, read_records
from turnsmith.synthesis.mining.history import GitHistory, find_version, read_snapshot
from turnsmith.synthesis.mining.trees import TreeStore, complete_layers
from turnsmith.tasks.dataset import FILE_NAME
from turnsmith.tasks.sets.swe_bench import CONDA
from turnsmith.tracking import Progress
from turnsmith.types import Task
from turnsmith.types.records import Record

JOURNAL = "rebuilding.jsonl"
REBUILT = "rebuilt"
WORKDIR = "/testbed"
PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+-]+)")


class Rebuilt(Record):
    """What became of one row."""

    instance_id: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class Yard:
    """Histories by the name of their repository, and where the tasks go."""

    histories: Mapping[str, GitHistory]
    folder: Path
    store: TreeStore
    num_workers: int


async def rebuild_tasks(yard: Yard, tasks: Sequence[Task], progress: Progress) -> Counter[str]:
    """Rebuild what has not been rebuilt before; returns what became of all rows, by reason. Raises UsageError."""
    yard.folder.mkdir(parents=True, exist_ok=True)
    done = {record.instance_id for record in read_records(yard.folder / JOURNAL, Rebuilt)}
    label, free = "rebuilding", asyncio.Semaphore(yard.num_workers)
    waiting = [task for task in tasks if task.instance_id not in done]
    progress.begin(label, len(waiting))

    stopped = Event()

    async def work(task: Task) -> None:
        async with free:
            record = await asyncio.to_thread(rebuild_or_say_why, yard, task, stopped)
        append_record(yard.folder / JOURNAL, record)
        progress.advance(label)

    try:
        async with asyncio.TaskGroup() as group:
            for task in waiting:
                group.create_task(work(task))
    finally:
        stopped.set()  # threads go on until they look
    progress.end(label)
    return Counter(record.reason for record in read_records(yard.folder / JOURNAL, Rebuilt))


def rebuild_or_say_why(yard: Yard, task: Task, stopped: Event) -> Rebuilt:
    """The task is in the file as soon as it is rebuilt; of another nothing stays."""
    try:
        append_record(yard.folder / FILE_NAME, rebuild(yard, task, stopped))
        return Rebuilt(instance_id=task.instance_id, reason=REBUILT)
    except BuildFailed as error:
        reason, detail = "environment could not be built", str(error)
    except UsageError as error:
        reason, detail = "history or Python missing", str(error)
    shutil.rmtree(yard.folder / "layers" / task.instance_id, ignore_errors=True)
    return Rebuilt(instance_id=task.instance_id, reason=reason, detail=detail)


def rebuild(yard: Yard, task: Task, stopped: Event) -> Task:
    """The task with layers and an environment in place of its image. Raises BuildFailed, UsageError."""
    history = yard.histories.get(task.repo)
    if history is None:
        raise UsageError(f"no history of {task.repo} was given: add --history {task.repo}=PATH")
    snapshot = read_snapshot(history, task.base_commit)
    layer = yard.store.write(task.instance_id, snapshot.tree)
    contents = {path: file.content for path, file in snapshot.tree.items()}
    environment = equip(
        contents,
        (layer,),
        WORKDIR,
        yard.folder,
        date=str((task.model_extra or {}).get("created_at", "")),
        version=find_version(history, task.base_commit),
        wishes=read_wishes(task),
        stopped=stopped,
    )
    layers, commit = complete_layers(layer, snapshot.tree, environment)
    return task.model_copy(
        update={
            "image": "",
            "workdir": WORKDIR,
            "setup": [],
            "base_commit": commit,
            "layers": [each.relative_to(yard.folder).as_posix() for each in layers],
            "environment": environment.folder.relative_to(yard.folder).as_posix(),
            "test_command": task.test_command.removeprefix(CONDA),
            "meta": task.meta | {"parent": task.base_commit, "absent": [*snapshot.absent]},
        }
    )


def read_wishes(task: Task) -> Wishes:
    """What SWE-rebench has found out about a row: its Python, packages that tests need, the versions that were installed."""
    columns: dict[str, Any] = task.model_extra or {}
    config = columns.get("install_config") or {}
    packages = [word for entry in config.get("pip_packages") or [] for word in entry.split()]
    pins = [line.strip() for line in str(columns.get("requirements") or "").splitlines() if PIN.fullmatch(line.strip())]
    return Wishes(python=str(config.get("python") or ""), requirements=tuple(packages), pins=tuple(pins))
