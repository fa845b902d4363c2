"""The run folder: names every file in it, writes each at once or not at all, and finds where to resume.

```
RUN/
  config.json                          resolved configuration; config.json.1, …: those before it was extended
  versions.jsonl                       versions of the software: a line for the start, and for each resume with others
  tasks/<set>/                         tasks.jsonl · qualification.jsonl: task sets of the run
  stages/<stage>/curriculum.json       ids of the tasks that the stage trains on, where its curriculum chose them
  stages/<stage>/iteration-0003/       trajectories.jsonl · trajectories.arrays · checkpoint/
                                       metrics.json (written last: the iteration is done)
  evals/<stage>/<set>/                 trajectories.jsonl · trajectories.arrays · result.json
                                       result-<n>-runs.json: what it was before more runs were asked for
  evals/<stage>@<iterations>/<set>/    the same of a checkpoint that has gone on since
  tracking/<tracker>/                  sent.json, and what the tracker keeps
  issue.json · solution.json · solution.patch · tests/attempt-0.json     of `turnsmith solve`, whose attempts lie in evals/solve/
  results.json · curves.png · run.log · stopped.txt · audits.jsonl · costs.json
  servers/vllm-0.log                   what the servers say that the run has started
```
"""

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from turnsmith.errors import UsageError, first_fault
from turnsmith.io.files import lock, parse_json, write_file
from turnsmith.runs.new_folders import refuse_taken

LEFTOVERS = (
    ".*.tmp",
    "tasks/.*.turnsmith-????????",
    "stages/*/*/.*.tmp",
    "stages/*/*/.*.old",
    "evals/*/*/.*.tmp",
    "tracking/*/.*.tmp",
)
"""What is being written has such a name until it is whole; a kill leaves it there."""
LOOK_S = 0.1
"""More than `is_held` takes, which locks a folder for a moment."""
R = TypeVar("R", bound=BaseModel)


@dataclass(frozen=True)
class RunFolder:
    """Knows the name of every file of a run."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def versions(self) -> Path:
        return self.path / "versions.jsonl"

    @property
    def results(self) -> Path:
        return self.path / "results.json"

    @property
    def curves(self) -> Path:
        return self.path / "curves.png"

    @property
    def stop_reason(self) -> Path:
        """Why the run stopped by itself, until it is resumed."""
        return self.path / "stopped.txt"

    @property
    def log(self) -> Path:
        return self.path / "run.log"

    @property
    def server_logs(self) -> Path:
        """What the servers say that the run has started: a file for each, which grows when the run goes on."""
        return self.path / "servers"

    @property
    def costs(self) -> Path:
        """What an endpoint was asked and what that cost, by stage."""
        return self.path / "costs.json"

    @property
    def audits(self) -> Path:
        """What `turnsmith audit` found, a line for each patch."""
        return self.path / "audits.jsonl"

    @property
    def issue(self) -> Path:
        """What `turnsmith solve` works on: a task of a checkout."""
        return self.path / "issue.json"

    @property
    def solution(self) -> Path:
        """What came of it."""
        return self.path / "solution.json"

    @property
    def patch(self) -> Path:
        """The patch that it leaves."""
        return self.path / "solution.patch"

    def attempt_tests(self, index: int) -> Path:
        """What the tests that were given did on the patch of an attempt."""
        return self.path / "tests" / f"attempt-{index}.json"

    def task_set(self, name: str) -> Path:
        return self.path / "tasks" / name

    def stage(self, stage: str) -> Path:
        return self.path / "stages" / stage

    def curriculum(self, stage: str) -> Path:
        return self.stage(stage) / "curriculum.json"

    def iteration(self, stage: str, iteration: int) -> Path:
        return self.stage(stage) / f"iteration-{iteration:04d}"

    def trajectories(self, stage: str, iteration: int) -> Path:
        return self.iteration(stage, iteration) / "trajectories.jsonl"

    def metrics(self, stage: str, iteration: int) -> Path:
        """Written last: where it exists, the iteration is done."""
        return self.iteration(stage, iteration) / "metrics.json"

    def evidence(self, stage: str, iteration: int) -> Path:
        """What tokens say of other settings of the sampler, for the next iteration to add to."""
        return self.iteration(stage, iteration) / "evidence.json"

    def checkpoint(self, stage: str, iteration: int) -> Path:
        return self.iteration(stage, iteration) / "checkpoint"

    def evaluations(self, stage: str) -> Path:
        return self.path / "evals" / stage

    def evaluation(self, stage: str, task_set: str) -> Path:
        return self.evaluations(stage) / task_set

    def eval_trajectories(self, stage: str, task_set: str) -> Path:
        return self.evaluation(stage, task_set) / "trajectories.jsonl"

    def result(self, stage: str, task_set: str) -> Path:
        """Written last: where it exists, the evaluation is done."""
        return self.evaluation(stage, task_set) / "result.json"

    def earlier_result(self, stage: str, task_set: str, num_runs: int) -> Path:
        """Where a result is kept when more runs are asked for."""
        return self.evaluation(stage, task_set) / f"result-{num_runs}-runs.json"

    def tracking(self, name: str) -> Path:
        """What a tracker keeps of its own, and what was sent to it."""
        return self.path / "tracking" / name

    def sent(self, name: str) -> Path:
        return self.tracking(name) / "sent.json"

    def journals(self) -> list[Path]:
        """Every journal of trajectories there is, those of a stage before those of the checkpoints that it has left behind."""
        return sorted([*self.path.glob("evals/*/*/trajectories.jsonl"), *self.stage_journals()])

    def stage_journals(self, stage: str = "*") -> list[Path]:
        """Those of the iterations of a stage, or of all stages."""
        return sorted(self.path.glob(f"stages/{stage}/*/trajectories.jsonl"))

    def name_checkpoint(self, stage: str, num_done: int) -> str:
        """Under which an evaluation inside a stage, or one before it was extended, is kept: `stage1@4` after four iterations."""
        return f"{stage}@{num_done}"

    def earlier_evaluations(self, stage: str) -> list[str]:
        """Names of the evaluated checkpoints that a stage has left behind, by their iterations: `stage1@4`."""
        found = (path.name for path in self.path.glob(f"evals/{stage}@*"))
        return sorted(found, key=lambda name: int(name.rpartition("@")[2]))

    def unused_copy(self) -> Path:
        """Where the configuration is kept when another takes its place."""
        names = (self.path / f"config.json.{number}" for number in count(1))
        return next(name for name in names if not name.exists())

    def is_untouched(self) -> bool:
        """True where a run was announced and nothing of it was done."""
        announced = (self.config, self.versions, self.log, self.stop_reason, self.costs, self.server_logs)
        return set(self.path.iterdir()) <= set(announced)

    def next_iteration(self, stage: str) -> int:
        """The first iteration of a stage that is not done."""
        return next(iteration for iteration in count() if not self.metrics(stage, iteration).exists())


def remove_unless_named(folder: RunFolder, error: Exception) -> None:
    """Remove a run that could not begin, but not where the error sends its reader to a log in there."""
    if str(folder.server_logs) not in str(error):
        shutil.rmtree(folder.path)


def claim(folder: RunFolder, config: dict[str, Any]) -> bool:
    """Take a folder for a run; True where the run is new, False where it goes on.

    Raises UsageError where the folder is in use: by a run of another configuration, or for something else.
    """
    if folder.config.exists():
        if key := next(list_differences(read_json(folder.config), config), ""):
            raise UsageError(
                f"{folder.path} holds a run of another configuration (its {key} differs): "
                f"go on with that one by `turnsmith resume {folder.path}`, or give another --out"
            )
        return False
    refuse_taken(folder.path)
    try:
        write_json(folder.config, config)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UsageError(f"cannot make {folder.path}: {error.strerror}: give another --out") from None
    return True


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Hold a run folder against other processes. Raises UsageError where one is at work in it."""
    with folder.config.open("rb") as file:
        hold(file)
        yield


def is_held(folder: RunFolder) -> bool:
    """Return True if a process works in a run folder."""
    if not folder.config.exists():
        return False
    with folder.config.open("rb") as file:
        return not lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def hold(file: BinaryIO) -> None:
    """Lock an open file against other processes until it is closed. Raises UsageError if one holds it."""
    kind = fcntl.LOCK_EX | fcntl.LOCK_NB
    if lock(file, kind):
        return
    time.sleep(LOOK_S)
    if not lock(file, kind):
        folder = Path(file.name).parent
        raise UsageError(f"another process is at work in {folder}: wait for it, or stop it first")


def find_stage(reference: str) -> tuple[RunFolder, str]:
    """`runs/first:stage1` → the run folder and the stage. Raises UsageError where nothing of such a stage is done."""
    path, _, stage = reference.rpartition(":")
    folder = RunFolder(Path(path))
    if not path or not stage or not folder.next_iteration(stage):
        raise UsageError(
            f"curriculum_from {reference!r} names no stage with a finished iteration: give RUN:STAGE, as runs/first:stage1"
        )
    return folder, stage


def sweep(folder: RunFolder, keep_checkpoints: int) -> None:
    """Remove what a killed process left: files and folders under temporary names, and checkpoints that nobody needs.

    Only for whoever holds the folder: to another process these names are work in progress.
    """
    for leftover in chain.from_iterable(map(folder.path.glob, LEFTOVERS)):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)
    for stage in folder.path.glob("stages/*"):
        drop_old_checkpoints(folder, stage.name, keep_checkpoints)


def drop_old_checkpoints(folder: RunFolder, stage: str, num_kept: int) -> None:
    """Of the iterations of a stage that are done, keep the last checkpoints; 0 keeps all."""
    for iteration in range(folder.next_iteration(stage) - num_kept if num_kept else 0):
        shutil.rmtree(folder.checkpoint(stage, iteration), ignore_errors=True)


def list_differences(old: Any, new: Any, key: str = "") -> Iterator[str]:
    """Dotted keys of values that differ: `{"a": {"b": 1}}`, `{"a": {"b": 2}}` → `a.b`."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**new, **old}:
            # `...` stands for a value that is not there.
            yield from list_differences(old.get(name, ...), new.get(name, ...), f"{key}.{name}" if key else str(name))
    elif old != new:
        yield key


def append_record(path: Path, record: BaseModel) -> None:
    """Add one record to a journal as a line of JSON."""
    append_line(path, record.model_dump_json())


def append_line(path: Path, line: str) -> None:
    """Add a line to a journal and push it to the disk's cache: a kill loses at most a torn last line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as journal:
        cut_torn_line(journal)
        journal.write(line.encode() + b"\n")


def cut_torn_line(journal: BinaryIO) -> None:
    """Drop what a kill or a full disk left without its line end, lest the next record be glued to it."""
    end = journal.seek(0, os.SEEK_END)
    journal.seek(max(0, end - 1))
    if journal.read() not in (b"", b"\n"):
        journal.seek(0)
        journal.truncate(journal.read().rfind(b"\n") + 1)


def read_records(path: Path, kind: type[R], containing: str = "") -> Iterator[R]:
    """Read a journal, or its lines that contain a text. Raises UsageError that names a damaged one."""
    for place, line in read_lines(path, containing):
        try:
            record = kind.model_validate_json(line)
        except ValidationError as error:
            fault = f"{place} is damaged ({first_fault(error)})"
            raise UsageError(f"{fault}: remove that line, or put back a copy of the file") from None
        yield record


def read_lines(path: Path, containing: str = "") -> Iterator[tuple[str, bytes]]:
    """The lines of a journal, or those that contain a text, each with its place; a torn last one is passed over."""
    if not path.exists():
        return
    with path.open("rb") as journal:
        for number, line in enumerate(journal, start=1):
            if line.endswith(b"\n") and containing.encode() in line:
                yield f"{path}:{number}", line


def write_json(path: Path, data: Any) -> None:
    """Write JSON atomically, creating missing folders."""
    write_file(path, json.dumps(data, indent=2, default=str) + "\n")


def read_json(path: Path) -> Any:
    """Read a file of a run. Raises UsageError where there is none, or none that can be read."""
    try:
        return parse_json(path.read_text())
    except FileNotFoundError:
        raise UsageError(f"no file at {path}: is this a run folder?") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}: give a run folder") from None
    except ValueError as error:
        raise UsageError(f"{path} is damaged ({error}): put back a copy of it, or start a new run") from None
