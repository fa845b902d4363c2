"""Export of a task as a Harbor directory: image or tree, issue, hidden tests, gold patch, qualification record.

The task's test command runs with a plugin that records the status of each test. The code under test can forge these
records, unlike those of Turnsmith's grader.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from typing import Any

from turnsmith.curation.harbor.judge import COUNTED
from turnsmith.errors import UsageError
from turnsmith.git.layers import copy_merged
from turnsmith.grading.testing import TEST_ENV, find_test_files
from turnsmith.qualification.record import Qualification
from turnsmith.runs.new_folders import to_folder_name
from turnsmith.tasks.sets.harbor import DOCKERFILE, OWN, SOLUTION, TASK_FILE, TEST, TREE, write_files
from turnsmith.types import PYTEST, Task, TaskTree

PLUGIN, JUDGE, TEMPLATE = (Path(__file__).with_name(name) for name in ("turnsmith_statuses.py", "judge.py", "test.sh"))
SOLVE = """#!/bin/bash
# Applies the gold patch.
here="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"
cd {workdir} && GIT_DIR=/nonexistent git apply --whitespace=nowarn "$here/gold.patch"
"""
TIMEOUT_S = 1800.0


def write_directory(tree: TaskTree, record: Qualification | None, out: Path) -> Path:
    """Write a task to `out/<instance_id>`. Raises UsageError if that folder exists or Harbor cannot hold the task."""
    task = tree.task
    refuse_unwritable(task)
    folder = out / to_folder_name(task.instance_id.replace("/", "_"))
    write_files(folder, render_files(task, record))
    if tree.layers:
        copy_merged(tree.layers, folder / TREE)
    return folder


def refuse_unwritable(task: Task) -> None:
    """Raise UsageError if Harbor could not run the tests of an exported task, or would grade them differently from Turnsmith."""
    if task.log_parser != PYTEST:
        raise UsageError(
            f"the tests of {task.instance_id} need the log parser {task.log_parser}: "
            "leave this task out, since Harbor directories support only pytest"
        )
    if task.status_rules not in COUNTED:
        raise UsageError(
            f"{task.instance_id} counts statuses by the rules {task.status_rules}: "
            f"leave this task out, since Harbor directories support only {' and '.join(COUNTED)}"
        )
    if task.environment:
        raise UsageError(
            f"{task.instance_id} needs the environment {task.environment}: "
            "leave this task out, since Harbor directories contain no environment"
        )


def render_files(task: Task, record: Qualification | None) -> dict[str, str]:
    """Render all files of the Harbor directory except the tree; return path → text."""
    tests = {"tests/test.patch": task.test_patch} if task.test_patch else {}
    return tests | {
        TASK_FILE: render_settings(task, record),
        "instruction.md": task.problem_statement,
        DOCKERFILE: render_dockerfile(task),
        TEST: render_test(task),
        f"tests/{PLUGIN.name}": PLUGIN.read_text(encoding="utf-8"),
        f"tests/{JUDGE.name}": JUDGE.read_text(encoding="utf-8"),
        OWN: task.model_dump_json(indent=1) + "\n",
        SOLUTION: SOLVE.format(workdir=quote(task.workdir)),
        "solution/gold.patch": task.patch,
    }


def render_settings(task: Task, record: Qualification | None) -> str:
    """Render task.toml. Its [metadata] holds the qualification record, without altered tests, which agents must not see."""
    import tomli_w

    facts: dict[str, Any] = {"repo": task.repo, "base_commit": task.base_commit, "created_by": task.created_by}
    if record:
        facts["qualification"] = record.model_dump(mode="json", exclude_none=True, exclude={"audit": {"mutants"}})
    settings = {
        "schema_version": "1.1",
        "task": {"name": f"turnsmith/{task.instance_id.replace('/', '_').lower()}", "description": "", "authors": []},
        "metadata": facts,
        "verifier": {"timeout_sec": TIMEOUT_S},
        "agent": {"timeout_sec": 2 * TIMEOUT_S},
        "environment": {"allow_internet": False}
        | ({"docker_image": task.image} if task.image and not task.setup else {}),
    }
    return tomli_w.dumps(settings)


def render_dockerfile(task: Task) -> str:
    """Render the Dockerfile: the task's image, or a Python image with git and pytest; then working tree and set-up."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    install = "apt-get update && apt-get install --yes --no-install-recommends git"
    base = [f"FROM {task.image}"] if task.image else [f"FROM python:{python}-slim", f"RUN {install}"]
    pytest = [] if task.image else [f"RUN pip install --no-cache-dir pytest=={version('pytest')}"]
    tree = [f"COPY tree {task.workdir}"] if task.layers else []
    setup = [f"RUN {json.dumps(['bash', '-c', command])}" for command in task.setup]
    return "\n".join([*base, *pytest, *tree, f"WORKDIR {task.workdir}", *setup, ""])


def render_test(task: Task) -> str:
    """Render tests/test.sh, which runs the task's test command with the environment variables that Turnsmith's grader sets."""
    files = task.test_files or find_test_files([*task.FAIL_TO_PASS, *task.PASS_TO_PASS])
    variables = " ".join(f"{name}={quote(value)}" for name, value in TEST_ENV.items())
    command = f"{task.test_command} {' '.join(map(quote, files))}"
    text = TEMPLATE.read_text(encoding="utf-8")
    return (
        text.replace("@WORKDIR@", quote(task.workdir)).replace("@VARIABLES@", variables).replace("@COMMAND@", command)
    )
