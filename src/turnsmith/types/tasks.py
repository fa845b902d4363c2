"""Tasks: repositories at a commit, issues and expected tests."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from turnsmith.types.records import Record

PYTEST = "pytest"
"""Name of the log parser for pytest. A plugin of the grader also reports pytest's results in a signed form."""
PYTEST_COMMAND = "python -m pytest -q --tb=no --color=no -p no:cacheprovider --continue-on-collection-errors"
"""Pytest command with little output. It writes no cache and goes on if a test file cannot be imported."""


class Task(Record):
    """Repository at a commit, an issue, and the tests that decide if the issue is solved.

    SWE-bench's columns keep their names; the other fields say how to run the task's tests. Unknown columns are kept.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    instance_id: str = Field(min_length=1)
    """Unique name of the task."""
    repo: str
    base_commit: str
    """Commit from which the agent starts."""
    problem_statement: str
    """Issue text; the agent sees nothing else of the task."""
    FAIL_TO_PASS: list[str]
    """Test ids that fail at the base commit and must pass after the fix."""
    PASS_TO_PASS: list[str]
    """Test ids that pass at the base commit and must still pass."""
    patch: str
    """The gold patch; never shown to the agent."""
    test_patch: str = ""
    """Patch that adds the hidden tests at grading time; empty if the repository contains them."""
    layers: list[str] = []
    """Folders, relative to the task file, that form the working tree at `base_commit` when overlaid, lowest first.

    Empty if the image holds the working tree.
    """
    workdir: str = "/testbed"
    """Path of the working tree inside the sandbox."""
    image: str = ""
    """Container image in which the tests run; the folders `layers` are mounted over the image at `workdir`."""
    environment: str = ""
    """Folder with the Python and packages for the tests, relative to the task file; empty to use this machine's.

    `local` sandboxes mount it at `/environment`. A container image must already contain it at that path.
    """
    setup: list[str] = []
    """Commands to run once in a new sandbox, before the agent or the tests."""
    test_command: str = PYTEST_COMMAND
    """Command that runs the tests; `test_files` are appended to it."""
    test_files: list[str] = []
    """Files, ids or labels passed to the test command; if empty, the files named in the expected test ids."""
    log_parser: str = PYTEST
    """Name of the parser for the log of `test_command`."""
    status_rules: Literal["strict", "swe-bench", "swe-bench-fail-only", "swe-rebench-v2", "r2e-gym", "multi-swe"] = (
        "strict"
    )
    """Rule that decides from the test results whether a patch resolves the task (docs/grading.md)."""
    created_by: str = ""
    """Origin of the task: `mined`, `practice`, or the name of a package or data set."""
    meta: dict[str, Any] = {}
    """Facts recorded when the task was made, such as kind of bug, seed and difficulty."""

    @field_validator("workdir")
    @classmethod
    def _place_for_a_tree(cls, value: str) -> str:
        steps = [step for step in value.split("/") if step not in ("", ".")]
        if not value.startswith("/") or not steps:
            raise ValueError(f"{value!r} is not an absolute path below /")
        if ".." in steps or "\0" in value:
            raise ValueError(f"{value!r} has '..' or a null byte: remove it")
        is_kernels = steps[0] in ("proc", "sys", "dev")
        if is_kernels or steps in (["bin"], ["etc"], ["lib"], ["lib64"], ["sbin"], ["usr"], ["var"]):
            raise ValueError(f"{value!r} is a system folder: give a folder of the working tree, e.g. /testbed")
        return value

    @field_validator("test_command")
    @classmethod
    def _something_to_run(cls, value: str) -> str:
        if not value.strip() or "\0" in value:
            raise ValueError(f"{value[:40]!r} is not a command: give one that runs the tests, or omit test_command")
        return value

    @model_validator(mode="after")
    def _a_tree(self) -> "Task":
        if not self.layers and not self.image:
            raise ValueError(
                "layers and image are both empty: give the folders of the working tree, or the image that holds it"
            )
        return self

    @field_validator("FAIL_TO_PASS", "PASS_TO_PASS", "test_files", mode="before")
    @classmethod
    def _accept_json_strings(cls, value: Any) -> Any:
        """Decode test lists that classic SWE-bench stores as JSON strings."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(f"{value[:40]!r} is neither a list nor JSON of a list") from None


@dataclass(frozen=True)
class TaskTree:
    """Task with the directories of its working tree, as found on this machine."""

    task: Task
    layers: tuple[Path, ...]
    """Absolute paths of the folders, lowest first; empty if the task's image holds the working tree."""

    @property
    def instance_id(self) -> str:
        return self.task.instance_id

    @property
    def environment(self) -> Path | None:
        """Folder of the task's Python environment; None to use Turnsmith's Python."""
        return Path(self.task.environment) if self.task.environment else None
