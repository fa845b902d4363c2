"""SWE-bench since version 5: rows or task folders that name their image and test command.

```
DIR/sweb.yaml · DIR/tasks/<id>/task.yaml tests.json problem_statement.md hints.md gold.patch test.patch eval.sh Dockerfile
```
"""

import json
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.io.files import parse_json
from turnsmith.runs.new_folders import to_folder_name
from turnsmith.tasks.sets.base import Columns, PublicSet, Refused, Row, TaskFolders
from turnsmith.tasks.sets.cells import describe_core, find_image, read_text
from turnsmith.tasks.sets.directives import begin_with_files, find_patched_tests, to_label
from turnsmith.types import PYTEST

BEGIN, END = ">>>>> Start Test Output", ">>>>> End Test Output"
"""Lines that the evaluation script prints before and after the test output."""
ENVIRONMENT = ("source ", ". ", "conda activate ", "export ", "cd ")
"""Prefixes of those set-up lines of the evaluation script that the test command needs; other set-up lines are dropped."""
IN_FILES = {
    "patch": "gold.patch",
    "test_patch": "test.patch",
    "eval_script": "eval.sh",
    "problem_statement": "problem_statement.md",
    "hints_text": "hints.md",
    "dockerfile": "Dockerfile",
}
"""Column of a row → file in a task folder that holds its text."""
TASK, TESTS, CONFIG = "task.yaml", "tests.json", "sweb.yaml"


def describe(row: Row) -> Columns:
    """Map a row to task columns. The test command is a part of the row's evaluation script. Raises Refused."""
    core, parser = describe_core(row), read_text(row, "log_parser")
    tests = [*core["FAIL_TO_PASS"], *core["PASS_TO_PASS"]]
    has_files = begin_with_files(tests)
    environment, command = read_script(read_text(row, "eval_script"))
    command, directives = split_directives(command, core["test_patch"])
    if assets := row.get("test_assets"):
        raise Refused("binary test assets", f"a patch cannot carry {sorted(assets)[0]}")
    return core | {
        "image": find_image(row, "image"),
        "test_command": " && ".join([*environment, command]),
        "test_files": [] if has_files else directives,
        "log_parser": PYTEST if has_files and PYTEST in command else parser,
        "status_rules": "swe-bench-fail-only" if row.get("eval_type") == "fail_only" else "swe-bench",
    }


def read_script(script: str) -> tuple[list[str], str]:
    """Extract the test command, and the set-up lines that it needs, from an evaluation script. Raises Refused."""
    before, begun, rest = script.partition(BEGIN)
    between, ended, _ = rest.partition(END)
    lines = [line for line in between.split("\n")[1:-1] if line.strip()]
    if not (begun and ended and lines):
        raise Refused("no test command", "eval_script has nothing between the markers of the test output")
    environment = dict.fromkeys(line.strip() for line in before.split("\n") if line.startswith(ENVIRONMENT))
    return list(environment), "\n".join(lines)


def split_directives(command: str, test_patch: str) -> tuple[str, list[str]]:
    """Cut the hidden test files off the end of a test command; return both. Return no files if it ends differently."""
    files = find_patched_tests(test_patch)
    for directives in (files, [to_label(file) for file in files]):
        if directives and command.endswith(ending := " " + " ".join(directives)):
            return command.removesuffix(ending).rstrip(), directives
    return command, []


def read_folder(folder: Path) -> "dict[str, Any] | Refused":
    """Read a task folder as a row."""
    try:
        texts = {column: _read(folder / file) for column, file in IN_FILES.items() if (folder / file).is_file()}
        row = _read_yaml(folder / TASK) | texts | _read_json(folder / TESTS)
    except Refused as refusal:
        return refusal
    assets = sorted(file.name for file in (folder / "test_assets").glob("**/*") if file.is_file())
    return row | ({"test_assets": assets} if assets else {})


def _read_yaml(file: Path) -> dict[str, Any]:
    import yaml

    try:
        return _check_object(yaml.safe_load(_read(file)), file)
    except yaml.YAMLError as error:
        raise Refused("unreadable row", f"{file.name} is not YAML: {str(error).replace(chr(10), ' ')}") from None


def _read_json(file: Path) -> dict[str, Any]:
    try:
        return _check_object(parse_json(_read(file)), file)
    except ValueError as error:
        raise Refused("unreadable row", f"{file.name} is not JSON: {error}") from None


def _check_object(value: Any, file: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused("unreadable row", f"{file.name} is not an object")
    return value


def _read(file: Path) -> str:
    """Read a text file with its original line endings, which patches need. Raises Refused if it is not UTF-8."""
    try:
        return file.read_bytes().decode()
    except OSError as error:
        raise Refused("unreadable row", f"{file.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Refused("unreadable row", f"{file.name} is not UTF-8 text at byte {error.start}") from None


def write_folder(row: dict[str, Any], out: Path) -> None:
    """Write a row as a task folder below `out`. Raises UsageError if the task folder exists."""
    import yaml

    folder = out / "tasks" / to_folder_name(row["instance_id"])
    if folder.exists():
        raise UsageError(f"{folder} exists: give another --out, since nothing is overwritten")
    folder.mkdir(parents=True)
    lists = {name: row[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    (folder / TESTS).write_text(json.dumps(lists, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    for column, file in IN_FILES.items():
        if column in row:
            (folder / file).write_text(row[column], encoding="utf-8", newline="")
    rest = {name: value for name, value in row.items() if name not in (*lists, *IN_FILES)}
    (folder / TASK).write_text(yaml.safe_dump(rest, allow_unicode=True), encoding="utf-8")


SWE_BENCH_V5 = PublicSet(
    "swe-bench-v5",
    frozenset({"instance_id", "patch", "test_patch", "image", "eval_script", "log_parser"}),
    describe,
    folders=TaskFolders((f"tasks/*/{TASK}",), read_folder, write_folder),
)
