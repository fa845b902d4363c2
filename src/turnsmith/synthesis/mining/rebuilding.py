"""Rebuilding of tasks from public data sets, so that they run without container images.

The source tree comes from a local git clone. The environment is built from the versions and packages in the data set's rows.
"""

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from turnsmith.environments.building import BuildFailed
from turnsmith.environments.equipping import EnvironmentOptions
from turnsmith.errors import GradingError, UsageError
from turnsmith.git.history import GitHistory
from turnsmith.grading.cases import Case
from turnsmith.grading.grading import try_plugin
from turnsmith.runs.folder import append_record, hold, read_records
from turnsmith.runs.new_folders import make_folder, to_folder_name
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.sandboxes.setup import SetupFailed
from turnsmith.synthesis.mining.bases import UNBUILT, Base, TreeStore, make_base
from turnsmith.tasks.dataset import FILE_NAME, save_tasks
from turnsmith.tasks.sets.base import Refused
from turnsmith.tasks.sets.cells import read_dict, read_list
from turnsmith.tasks.sets.swe_bench import CONDA
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import for_each
from turnsmith.types import Task, TaskTree
from turnsmith.types.records import Record

JOURNAL = "rebuilding.jsonl"
REBUILT = "rebuilt"
UNGRADABLE = "cannot be graded"
DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-\d\d")
TRIAL_TIMEOUT_S = 300.0
"""Time limit of a trial run of the grader's pytest plugin, in seconds."""
PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+-]+)")


class Rebuilt(Record):
    """Result of rebuilding one task of the data set."""

    instance_id: str
    reason: str
    detail: str = ""


@dataclass(frozen=True)
class RebuildJob:
    """Inputs of a rebuild: git histories by repository name, output folder, sandbox provider, settings."""

    histories: Mapping[str, GitHistory]
    folder: Path
    store: TreeStore
    provider: SandboxProvider
    num_workers: int
    options: EnvironmentOptions = field(default_factory=EnvironmentOptions)
    """Python version and install commands to use instead of the tasks' own."""


async def rebuild_tasks(job: RebuildJob, tasks: Sequence[Task], progress: Progress) -> Counter[str]:
    """Rebuild the tasks that the output folder lacks; return counts of all tasks by result. Raises UsageError, SandboxError."""
    with (make_folder(job.folder) / JOURNAL).open("ab") as journal:
        hold(journal)
        done = read_journal(job.folder)
        waiting = [task for task in tasks if done.get(task.instance_id) != REBUILT]

        async def work(task: Task) -> None:
            append_record(job.folder / JOURNAL, await _try_row(job, task))

        await for_each(waiting, work, progress, "rebuilding", num_workers=job.num_workers)
        done = read_journal(job.folder)
        _drop_repeats(job.folder)
    return Counter(done[task.instance_id] for task in tasks)


def read_journal(folder: Path) -> dict[str, str]:
    """Map each task id to its last result in the folder's journal."""
    return {record.instance_id: record.reason for record in read_records(folder / JOURNAL, Rebuilt)}


def _drop_repeats(folder: Path) -> None:
    """Drop duplicate tasks, left by a killed process, from the task file."""
    if tasks := {task.instance_id: task for task in read_records(folder / FILE_NAME, Task)}:
        save_tasks(folder, tasks.values())


async def _try_row(job: RebuildJob, task: Task) -> Rebuilt:
    """Rebuild a task and write it, or remove its folders if it is rejected. Return the result."""
    name = task.instance_id
    if to_folder_name(name) != name:
        return Rebuilt(instance_id=name, reason="unusable id", detail="it cannot be the name of a folder")
    try:
        append_record(job.folder / FILE_NAME, await rebuild(job, task))
        return Rebuilt(instance_id=name, reason=REBUILT)
    except Refused as refusal:
        reason, detail = refusal.reason, str(refusal)
    except BuildFailed as error:
        reason, detail = UNBUILT, str(error)
    except (SetupFailed, GradingError) as error:
        reason, detail = UNGRADABLE, str(error)
    except UsageError as error:
        reason, detail = "history or Python missing", str(error)
    shutil.rmtree(job.folder / "layers" / name, ignore_errors=True)
    return Rebuilt(instance_id=name, reason=reason, detail=detail)


async def rebuild(job: RebuildJob, task: Task) -> Task:
    """Replace the container image of a task by layers (folders of its working tree) and a built environment.

    Raises BuildFailed, Refused, UsageError, SandboxError, GradingError.
    """
    history = job.histories.get(task.repo)
    if history is None:
        raise UsageError(f"no git history of {task.repo} is given: add --history {task.repo}=PATH")
    name, date, options = task.instance_id, read_date(task), read_options(task)
    options = replace(options, python=job.options.python or options.python, commands=job.options.commands)
    base = await make_base(job.store, name, history, task.base_commit, date=date, options=options)
    columns = {
        "image": "",
        "setup": [],
        "test_command": task.test_command.removeprefix(CONDA),
        "meta": task.meta | {"parent": task.base_commit, "absent": [*base.absent]},
    }
    rebuilt = task.model_copy(update=columns | base.describe(job.folder))
    await refuse_ungradable(rebuilt, base, job.provider)
    return rebuilt


async def refuse_ungradable(task: Task, base: Base, provider: SandboxProvider) -> None:
    """Raise GradingError if the grader's pytest plugin fails in a task's environment. Raises SandboxError."""
    task = task.model_copy(update={"environment": str(base.environment)})
    case = Case(TaskTree(task, base.layers), provider, TRIAL_TIMEOUT_S)
    if case.is_sealed:
        await try_plugin(case)


def read_date(task: Task) -> str:
    """Read the date of a task's issue; "" if it is missing (R2E-Gym, SWE-smith) or a number of milliseconds."""
    stated = str((task.model_extra or {}).get("created_at", ""))
    return stated if DATE.match(stated) else ""


def read_options(task: Task) -> EnvironmentOptions:
    """Read SWE-rebench's columns on a task's environment: Python version, test packages, pinned versions. Raises Refused."""
    columns: dict[str, Any] = task.model_extra or {}
    config = read_dict(columns, "install_config")
    entries = read_list(config, "pip_packages") if config.get("pip_packages") else []
    packages = [word for entry in entries for word in entry.split()]
    pins = [line.strip() for line in str(columns.get("requirements") or "").splitlines() if PIN.fullmatch(line.strip())]
    return EnvironmentOptions(python=str(config.get("python") or ""), requirements=tuple(packages), pins=tuple(pins))
