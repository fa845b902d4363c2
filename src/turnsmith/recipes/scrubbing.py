"""A task set whose histories hold nothing but the base commit, for layers that come from elsewhere."""

import os
import re
from pathlib import Path

from turnsmith.qualification.record import LeakKind
from turnsmith.qualification.scanning import scan_layers
from turnsmith.qualification.scrubbing import write_clean_history
from turnsmith.recipes.task_sets import TaskSet
from turnsmith.synthesis.repositories import building
from turnsmith.tasks.dataset import save_tasks
from turnsmith.tracking import Progress
from turnsmith.types import Task

HISTORICAL = {LeakKind.OBJECTS, LeakKind.REFERENCE, LeakKind.REMOTE, LeakKind.STORE}
"""Leaks that a new history mends."""
SCRUBBED = "scrubbed_from"
"""Column of `Task.meta`: the base commit that the task came with."""


def scrub_task_set(task_set: TaskSet, out: Path, progress: Progress) -> list[Task]:
    """Write the same tasks to a new folder, with a history of one commit where theirs leaks; returns those that changed."""
    label = f"scrubbing {task_set.name}"
    progress.begin(label, len(task_set.tasks))
    scrubbed, tasks = list[Task](), list[Task]()
    with building(out) as folder:
        for task, layers in task_set.with_layers():
            moved = task.model_copy(update={"layers": [os.path.relpath(layer, out.resolve()) for layer in layers]})
            if leaks_by_history(task, layers):
                moved = _scrub(moved, layers, folder)
                scrubbed.append(moved)
            tasks.append(moved)
            progress.advance(label)
        save_tasks(folder, tasks)
    progress.end(label)
    return scrubbed


def leaks_by_history(task: Task, layers: tuple[Path, ...]) -> bool:
    """Does its history say more than it should, in structure or in text?"""
    return any(leak.kind in HISTORICAL or leak.where.startswith("git ") for leak in scan_layers(task, layers))


def _scrub(task: Task, layers: tuple[Path, ...], folder: Path) -> Task:
    layer = f"layers/{re.sub(r'[^A-Za-z0-9_.-]', '_', task.instance_id)}.history"
    commit = write_clean_history(folder / layer, layers, task.base_commit)
    meta = task.meta | {SCRUBBED: task.base_commit}
    return task.model_copy(update={"layers": [*task.layers, layer], "base_commit": commit, "meta": meta})
