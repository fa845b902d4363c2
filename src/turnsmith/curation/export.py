"""Export of task files: rows or folders of a public data set, or Harbor directories."""

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.curation.harbor.directory import write_directory
from turnsmith.errors import UsageError
from turnsmith.qualification.record import Qualification
from turnsmith.qualification.task_set import read_current_records, read_qualifications
from turnsmith.sandboxes.names import SANDBOXES
from turnsmith.tasks.dataset import find_task_file
from turnsmith.tasks.sets.base import PublicSet, came_from
from turnsmith.tasks.sets.exporting import export_tasks
from turnsmith.tasks.sets.recognition import HARBOR
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import follow
from turnsmith.types import Task


def export_task_file(path: Path, tasks: Sequence[Task], public: PublicSet, out: Path, progress: Progress) -> None:
    """Write tasks in the layout of a public data set. Raises UsageError if a task cannot be written."""
    refuse_own_folder(path, tasks, out)
    is_harbor = public is HARBOR
    new = [task for task in tasks if is_harbor and not came_from(task, HARBOR)]
    as_they_came = [task for task in tasks if not is_harbor or came_from(task, HARBOR)]
    exported, written = export_tasks(as_they_came, public, out), write_directories(path, new, out)
    if as_they_came:
        deque(follow(exported, progress, f"exporting {public.name}", len(as_they_came)), maxlen=0)
    if new:
        deque(follow(written, progress, "writing directories", len(new)), maxlen=0)


def refuse_own_folder(path: Path, tasks: Sequence[Task], out: Path) -> None:
    """Raise UsageError if `out` is the folder of the task file, or is inside a folder with files of a task's working tree."""
    folder, place = find_task_file(path).parent.resolve(), out.resolve()
    layers = {(folder / layer).resolve() for task in tasks for layer in task.layers}
    if place == folder or any(place.is_relative_to(layer) for layer in layers):
        raise UsageError(f"--out {out} is a folder that stores the tasks to export: give another folder")


def write_directories(path: Path, tasks: Sequence[Task], out: Path) -> Iterator[Task]:
    """Write each task as a Harbor directory, then yield the task. Raises UsageError if it cannot be written."""
    task_set = TaskSet(path.name, list(tasks), find_task_file(path))
    records = find_records(task_set) if tasks else {}
    for tree in task_set.list_trees():
        write_directory(tree, records.get(tree.instance_id), out)
        yield tree.task


def find_records(task_set: TaskSet) -> dict[str, Qualification]:
    """Map task ids to qualification records. Of several records, the one whose sandbox kind is first in `SANDBOXES` counts.

    Records made with non-default sandbox settings are ignored.
    """
    found: dict[str, Qualification] = {}
    kinds = [*SANDBOXES.paths, *(record.sandbox for record in read_current_records(task_set) if record.sandbox)]
    for kind in reversed(list(dict.fromkeys(kinds))):
        found |= read_qualifications(task_set, SandboxConfig(kind=kind))
    return found
