"""Sections `[train_tasks]` and `[eval_tasks.NAME]`: sources of tasks."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from turnsmith.config.section import PathKey, Section

TRAIN = "train"
"""Name of the training set's folder."""


class TaskSetConfig(Section):
    """Source of tasks: exactly one of `path`, `practice_tasks` or `package`."""

    path: Annotated[str | None, PathKey()] = None
    """JSONL file of tasks, or the folder that contains `tasks.jsonl`."""
    subset: Annotated[str | None, PathKey()] = None
    """Subset of a path: `verified-50` (the paper's 50 tasks of SWE-bench Verified), or a text file with one id per line."""
    tasks: list[str] = []
    """Task ids to select from a path or its subset; empty selects all."""
    limit: int | None = Field(None, ge=1)
    """Number of tasks to keep, the first ones of the selection; all if absent."""
    practice_tasks: int = Field(0, ge=0)
    """Number of tasks to make from generated practice repositories."""
    split: Literal["train", "heldout"] = "train"
    """Split of practice tasks; `heldout` uses other seeds, and also kinds of module that `train` never uses."""
    difficulty: float = Field(0.3, ge=0.0, le=1.0)
    """Difficulty of practice tasks, from 0 (short functions, informative issues) to 1 (long functions, uninformative issues)."""
    seed: int | None = None
    """Random seed for making tasks; the run's seed if absent."""
    package: Annotated[str | None, PathKey()] = None
    """Package into which bugs are inserted: `name==version` from the package index, or the path of a local git checkout."""
    package_tasks: int = Field(12, ge=1)
    """Number of tasks to make from a package."""

    @model_validator(mode="after")
    def _has_one_source(self) -> "TaskSetConfig":
        if [bool(self.path), bool(self.practice_tasks), bool(self.package)].count(True) != 1:
            raise ValueError("give exactly one of path, practice_tasks, package: set the others to null or 0")
        for key in ("subset", "tasks"):
            if getattr(self, key) and not self.path:
                raise ValueError(f"{key} needs path: tasks that the run makes have no ids yet")
        return self
