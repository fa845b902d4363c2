"""Tasks of a file leave, watched: as rows or folders of a public set, or as Harbor directories."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from turnsmith.qualification.harbor.directory import write_directory
from turnsmith.qualification.record import FILE_NAME, Qualification
from turnsmith.runs import read_records
from turnsmith.tasks.dataset import find_task_file, layer_paths
from turnsmith.tasks.sets.base import PublicSet, came_from
from turnsmith.tasks.sets.exporting import export_tasks
from turnsmith.tasks.sets.recognition import HARBOR
from turnsmith.tracking import Progress
from turnsmith.types import Task


def export_task_file(path: Path, tasks: Sequence[Task], public: PublicSet, out: Path, progress: Progress) -> None:
    """Write tasks of a file to a folder; directories of Harbor are made for those that have none yet. Raises UsageError."""
    is_harbor = public is HARBOR
    new = [task for task in tasks if is_harbor and not came_from(task, HARBOR)]
    as_they_came = [task for task in tasks if not is_harbor or came_from(task, HARBOR)]
    watch(export_tasks(as_they_came, public, out), f"exporting {public.name}", len(as_they_came), progress)
    watch(write_directories(path, new, out), "writing directories", len(new), progress)


def write_directories(path: Path, tasks: Sequence[Task], out: Path) -> Iterator[Task]:
    """Write each task as a Harbor directory; gives it when that is done. Raises UsageError."""
    file = find_task_file(path)
    records = {record.instance_id: record for record in read_records(file.with_name(FILE_NAME), Qualification)}
    for task in tasks:
        write_directory(task, layer_paths(task, file), records.get(task.instance_id), out)
        yield task


def watch(done: Iterable[Task], label: str, total: int, progress: Progress) -> None:
    """Do all of it, watched."""
    if not total:
        return
    progress.begin(label, total)
    for _ in done:
        progress.advance(label)
    progress.end(label)
