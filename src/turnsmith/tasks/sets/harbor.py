"""Harbor task directories: one folder per task, whose scripts run the tests and write the reward.

```
<name>/task.toml · instruction.md · environment/Dockerfile · tests/test.sh … · solution/solve.sh
```

A directory that Turnsmith wrote is restored as the original task. Any other directory becomes a task with one expected test. It
passes if `tests/test.sh` writes a reward of 1. The files of `tests/` are hidden; the test patch adds them as `harbor_tests/`.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turnsmith.errors import UsageError, first_fault
from turnsmith.git.patches import add_file, render_diff
from turnsmith.tasks.sets.base import Columns, PublicSet, Refused, Row, TaskFolders
from turnsmith.tasks.sets.cells import check_image, find_image, read_dict, read_files, read_text
from turnsmith.types import Task

TASK_FILE, DOCKERFILE, TEST, SOLUTION = "task.toml", "environment/Dockerfile", "tests/test.sh", "solution/solve.sh"
OWN = "tests/turnsmith.json"
"""File that holds the task as JSON, if Turnsmith wrote the directory."""
TREE = "environment/tree"
"""Folder of the working tree, if the task's image does not contain it."""
FOLDER, REWARD = "harbor_tests", "reward"
"""Folder of the hidden files in the working tree, and id of the only expected test."""
RUN = (
    f"mkdir -p /logs/verifier && rm -rf /tests && cp -r {FOLDER} /tests && bash /tests/test.sh >&2; "
    'python3 -c \'import json, os; p = "/logs/verifier/reward"; '
    'r = json.load(open(p + ".json")) if os.path.exists(p + ".json") else float(open(p + ".txt").read()); '
    'r = r.get("reward", 0) if isinstance(r, dict) else r; print("PASSED reward" if r >= 1 else "FAILED reward"); '
    "raise SystemExit(r < 1)'"
)
"""Command that runs the test script of a Harbor directory and prints its reward as a test result."""
PLAIN = ("FROM", "WORKDIR", "ENV", "USER", "LABEL", "CMD", "ENTRYPOINT", "ARG", "EXPOSE")
"""Dockerfile instructions that do not change the image's files; a task with any other is refused."""
INSTRUCTION = re.compile(r"^([A-Za-z]+)\s+(.*)$", re.MULTILINE)
CONTINUED = re.compile(r"\\\n")
MAX_FILE = 4_000_000
"""Maximum size in bytes of a file in a task directory; tasks with a larger file are refused."""


def describe(row: Row) -> Columns | Task:
    """Restore the task if Turnsmith wrote the Harbor directory; convert any other directory to task columns. Raises Refused."""
    files = read_dict(row, "files")
    if odd := next((path for path, text in files.items() if not isinstance(text, str)), None):
        raise Refused("unreadable files", f"the content of {odd} is not text")
    if OWN in files:
        return read_own(files[OWN], row)
    settings = read_settings(files)
    environment = settings.get("environment") or {}
    if "instruction.md" not in files:
        steps = any(path.startswith("steps/") for path in files)
        raise Refused("several steps" if steps else "no issue text", "it has no instruction.md")
    if TEST not in files:
        raise Refused("no test command", f"it has no {TEST}")
    image = find_image(environment, "docker_image") if environment.get("docker_image") else read_image(files)
    return {
        "instance_id": identify(row),
        "repo": str((settings.get("metadata") or {}).get("repo") or identify(row)),
        "base_commit": str((settings.get("metadata") or {}).get("base_commit") or ""),
        "problem_statement": read_text(files, "instruction.md", name="issue text"),
        "patch": find_gold(files),
        "test_patch": render_tests(files),
        "image": image,
        "workdir": find_workdir(files),
        "test_command": RUN,
        "test_files": [FOLDER],
        "log_parser": "lines",
        "FAIL_TO_PASS": [REWARD],
        "PASS_TO_PASS": [],
        "meta": dict(settings.get("metadata") or {}),
    }


def identify(row: Row) -> str:
    """Return the name of the task's directory, which is its id."""
    return str(row.get("name") or "")


def read_own(text: str, row: Row) -> Task:
    """Restore a task that Turnsmith exported; its working tree stays in the exported directory. Raises Refused."""
    try:
        columns = json.loads(text)
        layers = [] if columns["image"] else [str(Path(row["place"]) / TREE)]
        return Task.model_validate(columns | {"layers": layers})
    except ValidationError as error:
        raise Refused("unreadable row", f"{OWN} holds no task: {first_fault(error)}") from None
    except (ValueError, KeyError, TypeError):
        raise Refused("unreadable row", f"{OWN} holds no task of an image or of a tree") from None


def read_settings(files: Row) -> dict[str, Any]:
    """Parse a directory's task.toml. Raises Refused if it is missing or invalid."""
    try:
        return tomllib.loads(str(files.get(TASK_FILE) or ""))
    except tomllib.TOMLDecodeError as error:
        raise Refused("unreadable task.toml", str(error)) from None


def read_image(files: Row) -> str:
    """Return the base image of the Dockerfile. Raises Refused if the Dockerfile changes the image's files."""
    instructions = _read_instructions(files)
    if other := next((name for name, _ in instructions if name not in PLAIN), None):
        remedy = "build it, and name it as docker_image under [environment]"
        raise Refused("image to build", f"{DOCKERFILE} has {other} instructions: {remedy}")
    images = [rest.split()[0] for name, rest in instructions if name == "FROM"]
    if len(images) != 1:
        raise Refused("no image", f"neither docker_image under [environment] nor one FROM in {DOCKERFILE}")
    return check_image(images[0])


def find_workdir(files: Row) -> str:
    """Return the Dockerfile's last WORKDIR; Harbor's default if there is none."""
    places = [rest.strip() for name, rest in _read_instructions(files) if name == "WORKDIR"]
    return places[-1] if places else "/app"


def _read_instructions(files: Row) -> list[tuple[str, str]]:
    text = CONTINUED.sub(" ", str(files.get(DOCKERFILE) or ""))
    return [(name.upper(), rest) for name, rest in INSTRUCTION.findall(text)]


def find_gold(files: Row) -> str:
    """Return the gold patch: the only patch in `solution/`; empty if there is none or several. Raises Refused."""
    patches = [path for path in files if path.startswith("solution/") and path.endswith((".patch", ".diff"))]
    if len(patches) != 1:
        return ""
    read_files(files[patches[0]], "gold patch")
    return str(files[patches[0]])


def render_tests(files: Row) -> str:
    """Build a test patch that adds `tests/` of the Harbor task's directory to the working tree as `harbor_tests/`."""
    tests = {path.removeprefix("tests/"): text for path, text in files.items() if path.startswith("tests/")}
    return render_diff([add_file(f"{FOLDER}/{path}", text) for path, text in sorted(tests.items())])


def read_folder(folder: Path) -> "dict[str, Any] | Refused":
    """Read a Harbor directory as a row: its name, its path, and its text files except the working tree."""
    files = {}
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder).as_posix()
        if not file.is_file() or path.startswith(f"{TREE}/"):
            continue
        if file.stat().st_size > MAX_FILE:
            return Refused("file too large", f"{path} has more than {MAX_FILE} bytes")
        try:
            files[path] = file.read_bytes().decode()
        except UnicodeDecodeError:
            return Refused("binary file", f"{path} is not text")
    return {"name": folder.name, "files": files} | ({"place": str(folder.absolute())} if OWN in files else {})


def write_folder(row: dict[str, Any], out: Path) -> None:
    """Write a row as a Harbor directory. Raises UsageError if the directory exists."""
    write_files(out / row["name"], row["files"])


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a new folder; make scripts executable. Raises UsageError if the folder exists."""
    if folder.exists():
        raise UsageError(f"{folder} exists: give another --out, since nothing is overwritten")
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
        if path.endswith(".sh"):
            file.chmod(0o755)


HARBOR = PublicSet(
    "harbor",
    frozenset({"name", "files"}),
    describe,
    identify,
    folders=TaskFolders((TASK_FILE, f"*/{TASK_FILE}"), read_folder, write_folder),
)
