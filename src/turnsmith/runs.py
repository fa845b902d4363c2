"""The run folder: names every file in it, writes each at once or not at all, and finds where to resume.

```
RUN/
  config.json                          resolved configuration
  tasks/<set>/tasks.jsonl              task sets of the run
  stages/<stage>/iteration-0003/       trajectories.jsonl · metrics.json (written last: the iteration is done) · checkpoint/
  stages/<stage>/checkpoint → model that the stage ended with
  evals/<stage>/<set>/                 trajectories.jsonl · result.json
  results.json · curves.png · run.log
```
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from turnsmith.errors import UsageError

R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class RunFolder:
    """Knows the name of every file of a run."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    @property
    def curves(self) -> Path:
        return self.path / "curves.png"

    def task_set(self, name: str) -> Path:
        return self.path / "tasks" / name

    def iteration(self, stage: str, iteration: int) -> Path:
        return self.path / "stages" / stage / f"iteration-{iteration:04d}"

    def trajectories(self, stage: str, iteration: int) -> Path:
        return self.iteration(stage, iteration) / "trajectories.jsonl"

    def metrics(self, stage: str, iteration: int) -> Path:
        """Written last: where it exists, the iteration is done."""
        return self.iteration(stage, iteration) / "metrics.json"

    def checkpoint(self, stage: str, iteration: int) -> Path:
        return self.iteration(stage, iteration) / "checkpoint"

    def evaluation(self, stage: str, task_set: str) -> Path:
        return self.path / "evals" / stage / task_set

    def next_iteration(self, stage: str) -> int:
        """The first iteration of a stage that is not done."""
        done = 0
        while self.metrics(stage, done).exists():
            done += 1
        return done


def append_record(path: Path, record: BaseModel) -> None:
    """Add one line to a journal and push it to the disk's cache: a kill loses at most a torn last line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as journal:
        journal.write(record.model_dump_json().encode() + b"\n")


def read_records(path: Path, kind: type[R]) -> Iterator[R]:
    """Read a journal; a torn last line, as a kill leaves it, is passed over."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield kind.model_validate_json(line)


def write_json(path: Path, data: Any) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(data, indent=2, default=str) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise UsageError(f"no file at {path}: is this a run folder?") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{path} is not valid JSON: {error}") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        os.replace(temporary, path)  # noqa: PTH105  (atomic, over an existing file)
    finally:
        temporary.unlink(missing_ok=True)
