"""Task files: JSONL with SWE-bench's column names, one task per line."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from turnsmith.errors import UsageError, first_fault
from turnsmith.io.files import Line, read_json_lines, write_file
from turnsmith.runs.new_folders import make_folder
from turnsmith.tasks.characters import ESCAPED, mend
from turnsmith.types import Task

FILE_NAME = "tasks.jsonl"
SYSTEM = [(), ("proc",), ("sys",), ("dev",)]
"""System folders, each as path components below `/`. A folder of a task's working tree must not be inside one."""


def load_tasks(path: Path) -> list[Task]:
    """Load a task file, or the `tasks.jsonl` of a folder. Raises UsageError with file and line."""
    return list(stream_tasks(path))


def stream_tasks(path: Path) -> Iterator[Task]:
    """Yield the tasks of a task file, or of the `tasks.jsonl` of a folder. Raises UsageError with file and line."""
    file, ids = find_task_file(path), Counter[str]()
    for line in read_json_lines(file):
        task = _parse(line, file)
        ids[task.instance_id] += 1
        yield task
    if not ids:
        raise UsageError(f"{file} holds no tasks: create tasks with `turnsmith tasks make`")
    name, count = ids.most_common(1)[0]
    if count > 1:
        raise UsageError(f"{file}: instance_id {name!r} occurs {count} times: ids must be unique")


def save_tasks(folder: Path, tasks: Iterable[Task]) -> Path:
    """Write tasks to `tasks.jsonl` in a folder, atomically; return the file."""
    file = make_folder(folder) / FILE_NAME
    write_file(file, "".join(task.model_dump_json() + "\n" for task in tasks))
    return file


def find_task_file(path: Path) -> Path:
    """Return `path` itself if it is a file, or the task file in this folder. Raises UsageError if there is none."""
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"no task file at {file}: give a .jsonl file or the folder that holds {FILE_NAME}")
    if file.suffix in (".parquet", ".arrow"):
        from turnsmith.tasks.sets.recognition import recognise_file

        found = recognise_file(file)
        remedy = f"make tasks of them by `turnsmith tasks import {found or 'SET'} --from {file} --out DIR`"
        raise UsageError(f"{file} holds rows of {found or 'a data set'}, not tasks: {remedy}")
    return file


def layer_paths(task: Task, task_file: Path) -> tuple[Path, ...]:
    """Return the folders that make up a task's working tree, lowest first. Raises UsageError if one is missing or repeated."""
    paths = tuple(_resolve(task_file.parent / layer) for layer in task.layers)
    for path in paths:
        if fault := _find_fault_of_layer(path, paths.count(path)):
            raise UsageError(f"{task_file}: task {task.instance_id} {fault}")
    return paths


def environment_path(task: Task, task_file: Path) -> str:
    """Return the absolute path of the Python environment that a task names, or "". Raises UsageError if it does not exist."""
    if not task.environment:
        return ""
    path = _resolve(task_file.parent / task.environment)
    if not path.is_dir():
        needs = f"task {task.instance_id} needs the environment {path}, which does not exist"
        raise UsageError(f"{task_file}: {needs}: rebuild it with `turnsmith tasks mine` or `turnsmith tasks rebuild`")
    return str(path)


def _resolve(path: Path) -> Path:
    """Return a path without symlinks. If it is invalid or its symlinks form a cycle, return the absolute path as it is."""
    try:
        return path.resolve()
    except (RuntimeError, ValueError):
        return path.absolute()


def _find_fault_of_layer(layer: Path, count: int) -> str:
    """Describe the fault of a folder that a task lists `count` times as a layer of its working tree; empty if there is none."""
    if not layer.is_dir():
        return f"needs the folder {layer}, which is missing"
    if layer.parts[1:2] in SYSTEM and not layer.is_relative_to("/dev/shm"):  # a place for ordinary files
        return f"names the layer {layer}, a system folder: give a folder with a working tree"
    return f"names the layer {layer} {count} times: list it once" if count > 1 else ""


def _parse(line: Line, file: Path) -> Task:
    row = mend(line.parse()) if ESCAPED.search(line.raw) else line.parse()
    try:
        task = Task.model_validate(row)
    except ValidationError as error:
        from turnsmith.tasks.sets.recognition import recognise

        if isinstance(row, dict) and (found := recognise(row)):
            remedy = f"make tasks of them by `turnsmith tasks import {found.name} --from {file} --out DIR`"
            raise UsageError(f"{line.place}: a row of {found.name}, not a task: {remedy}") from None
        raise UsageError(f"{line.place}: this line is not a task: {_explain(error)}") from None
    if fault := _find_fault_of_tests(task):
        raise UsageError(f"{line.place}: {task.instance_id} {fault}")
    return task


def _find_fault_of_tests(task: Task) -> str:
    if not task.FAIL_TO_PASS:
        return "has no FAIL_TO_PASS test, so no patch can resolve it"
    passing = set(task.PASS_TO_PASS)
    both = next((test for test in task.FAIL_TO_PASS if test in passing), None)
    return "" if both is None else f"has the test {both!r} in FAIL_TO_PASS and in PASS_TO_PASS: leave it in one"


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    column = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"column {column!r} is missing"
    if first["type"] == "model_type":
        return "it is not a JSON object"
    return f"column {column!r}: {first_fault(error)}" if column else first_fault(error)
