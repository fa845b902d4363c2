"""File names of a run folder, its lock, and journals of records.

```
RUN/
  config.json                          resolved configuration; config.json.1, …: earlier ones of an extended run
  versions.jsonl                       software versions: a line at the start, and at each resume with other versions
  tasks/<set>/                         tasks.jsonl · qualification.jsonl: task sets of the run
  stages/<stage>/curriculum.json       ids of the stage's tasks, if its curriculum chose them
  stages/<stage>/iteration-0003/       trajectories.jsonl · trajectories.arrays · checkpoint/
                                       metrics.json (written last: marks the iteration as finished)
  evals/<stage>/<set>/                 trajectories.jsonl · trajectories.arrays · result.json
                                       result-<n>-runs.json: earlier result, before more runs were requested
  evals/<stage>@<iterations>/<set>/    files as above, for the checkpoint after that many iterations
  tracking/<tracker>/                  sent.json and the tracker's own files
  issue.json · solution.json · solution.patch · tests/attempt-0.json     of `turnsmith solve`; attempts are in evals/solve/
  results.json · curves.png · run.log · stopped.txt · audits.jsonl · costs.json
  servers/                             vllm-0.log · ray.log · rank-0.log: logs of processes that the run has started
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
from turnsmith.io.files import lock, parse_json, read_text, write_file
from turnsmith.runs.new_folders import refuse_taken

LEFTOVERS = (
    ".*.tmp",
    "tasks/.*.turnsmith-????????",
    "stages/*/*/.*.tmp",
    "stages/*/*/.*.old",
    "evals/*/*/.*.tmp",
    "tracking/*/.*.tmp",
)
"""Patterns of the temporary files and folders that a killed process leaves in a run folder."""
LOOK_S = 0.1
"""Seconds before the second attempt to lock a run folder, since `is_held` in another process locks it for a moment."""
R = TypeVar("R", bound=BaseModel)


class File:
    """Python descriptor: an attribute whose value is a path below the owner's `path`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, owner: "RunFolder | IterationFolder", kind: type) -> Path:
        return owner.path / self._name


@dataclass(frozen=True)
class IterationFolder:
    """Paths of the files of one iteration."""

    path: Path
    trajectories = File("trajectories.jsonl")
    metrics = File("metrics.json")
    """File of metrics. It is the last file of an iteration to be written, so its presence marks the iteration as finished."""
    evidence = File("evidence.json")
    """JSON file: other sampler setting → log-likelihood ratio (nats) to the configured one, summed over iterations so far."""
    rewards = File("rewards.json")
    """JSON file: trajectory id → `reward`, and `advantage` if the trajectory was used for training, else null."""
    trainer_logprobs = File("trainer_logprobs.safetensors")
    """File of the trainer's log-probs before the first optimizer step: trajectory id → float32 array, parallel to the tokens."""
    checkpoint = File("checkpoint")
    steps = File("steps.json")
    """JSON file of a finished cold start or RFT: list of the metrics of each optimizer step."""
    saves = File("saves")
    """Folder of the saves of an unfinished cold start or RFT."""


@dataclass(frozen=True)
class RunFolder:
    """Paths of the files of a run."""

    path: Path
    config = File("config.json")
    versions = File("versions.jsonl")
    results = File("results.json")
    curves = File("curves.png")
    stop_reason = File("stopped.txt")
    """File with the reason why the run stopped by itself; `resume` removes it."""
    log = File("run.log")
    server_logs = File("servers")
    """Folder with one log file per model server and rank that the run has started."""
    costs = File("costs.json")
    """File of the numbers and costs of requests to a model endpoint, by stage."""
    audits = File("audits.jsonl")
    """Journal of `turnsmith audit`: one line with the result of the audit of each patch."""
    issue = File("issue.json")
    """File of the task that `turnsmith solve` works on."""
    solution = File("solution.json")
    patch = File("solution.patch")

    def attempt_tests(self, index: int) -> Path:
        """Return the path of the file with results of the user's tests for the patch of one attempt of `turnsmith solve`."""
        return self.path / "tests" / f"attempt-{index}.json"

    def task_set(self, name: str) -> Path:
        return self.path / "tasks" / name

    def stage(self, stage: str) -> Path:
        return self.path / "stages" / stage

    def curriculum(self, stage: str) -> Path:
        return self.stage(stage) / "curriculum.json"

    def iteration(self, stage: str, number: int) -> IterationFolder:
        return IterationFolder(self.stage(stage) / f"iteration-{number:04d}")

    def evaluations(self, stage: str) -> Path:
        return self.path / "evals" / stage

    def evaluation(self, stage: str, task_set: str) -> Path:
        return self.evaluations(stage) / task_set

    def eval_trajectories(self, stage: str, task_set: str) -> Path:
        return self.evaluation(stage, task_set) / "trajectories.jsonl"

    def result(self, stage: str, task_set: str) -> Path:
        """Return the path of an evaluation's result. It is written last, so its presence marks the evaluation as finished."""
        return self.evaluation(stage, task_set) / "result.json"

    def earlier_result(self, stage: str, task_set: str, num_runs: int) -> Path:
        """Return the path to which an evaluation's result for `num_runs` runs is copied when more runs are requested."""
        return self.evaluation(stage, task_set) / f"result-{num_runs}-runs.json"

    def tracking(self, name: str) -> Path:
        """Return the folder with the files of an experiment tracker, e.g. TensorBoard."""
        return self.path / "tracking" / name

    def sent(self, name: str) -> Path:
        return self.tracking(name) / "sent.json"

    def journals(self) -> list[Path]:
        """List the run's journals of trajectories: of all iterations and evaluations."""
        return sorted([*self.path.glob("evals/*/*/trajectories.jsonl"), *self.stage_journals()])

    def stage_journals(self, stage: str = "*") -> list[Path]:
        """List the journals of training trajectories, of one stage or (`*`) of all."""
        return sorted(self.path.glob(f"stages/{stage}/*/trajectories.jsonl"))

    def name_checkpoint(self, stage: str, num_done: int) -> str:
        """Return the name of the evaluation of a stage's checkpoint after `num_done` iterations, e.g. `stage1@4`."""
        return f"{stage}@{num_done}"

    def earlier_evaluations(self, stage: str) -> list[str]:
        """List evaluations of a stage's intermediate checkpoints by number of iterations, e.g. `stage1@4` after four."""
        found = (path.name for path in self.path.glob(f"evals/{stage}@*"))
        return sorted(found, key=lambda name: int(name.rpartition("@")[2]))

    def unused_copy(self) -> Path:
        """Find a free name for a copy of `config.json`, e.g. `config.json.1`."""
        names = (self.path / f"config.json.{number}" for number in count(1))
        return next(name for name in names if not name.exists())

    def is_untouched(self) -> bool:
        """Return True if the run has no results yet."""
        announced = (self.config, self.versions, self.log, self.stop_reason, self.costs, self.server_logs)
        return set(self.path.iterdir()) <= set(announced)

    def next_iteration(self, stage: str) -> int:
        """Find the first unfinished iteration of a stage."""
        return next(number for number in count() if not self.iteration(stage, number).metrics.exists())


def remove_unless_named(folder: RunFolder, error: Exception) -> None:
    """Remove the folder of a run that failed to start, unless the error message sends the user to a server log in it."""
    if str(folder.server_logs) not in str(error):
        shutil.rmtree(folder.path)


def claim(folder: RunFolder, config: dict[str, Any]) -> bool:
    """Create a run folder; return False if it already holds a run of this configuration.

    Raises UsageError if it holds another run or other files.
    """
    if folder.config.exists():
        if key := next(list_differences(read_json(folder.config), config), ""):
            raise UsageError(
                f"{folder.path} holds a run of another configuration (its {key} differs): "
                f"continue it by `turnsmith resume {folder.path}`, or give another --out"
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
    """Lock a run folder against other processes. Raises UsageError if one works in it."""
    with folder.config.open("rb") as file:
        hold(file)
        yield


def is_held(folder: RunFolder) -> bool:
    """Return True if a process has locked a run folder, i.e. works in it."""
    if not folder.config.exists():
        return False
    with folder.config.open("rb") as file:
        return not lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def hold(file: BinaryIO) -> None:
    """Lock an open file until it is closed. Raises UsageError if another process has locked it."""
    kind = fcntl.LOCK_EX | fcntl.LOCK_NB
    if lock(file, kind):
        return
    time.sleep(LOOK_S)
    if not lock(file, kind):
        folder = Path(file.name).parent
        raise UsageError(
            f"another process is working in {folder}, or its file system has no locks: "
            "wait until the process ends, stop it, or give a local folder"
        )


def find_stage(reference: str) -> tuple[RunFolder, str]:
    """Split `runs/first:stage1` into run folder and stage. Raises UsageError if the stage has no finished iteration."""
    path, _, stage = reference.rpartition(":")
    folder = RunFolder(Path(path))
    if not path or not stage or not folder.next_iteration(stage):
        raise UsageError(
            f"curriculum_from {reference!r} names no stage with a finished iteration: give RUN:STAGE, as runs/first:stage1"
        )
    return folder, stage


def sweep(folder: RunFolder, keep_checkpoints: int) -> None:
    """Remove leftovers of killed processes from a run folder: temporary files and folders, and old checkpoints.

    The caller must hold the folder's lock, so that no other process writes these temporary files.
    """
    for leftover in chain.from_iterable(map(folder.path.glob, LEFTOVERS)):
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)
    for stage in folder.path.glob("stages/*"):
        drop_old_checkpoints(folder, stage.name, keep_checkpoints)


def drop_old_checkpoints(folder: RunFolder, stage: str, num_kept: int) -> None:
    """Keep only the last `num_kept` checkpoints of a stage's finished iterations; 0 keeps all."""
    for iteration in range(folder.next_iteration(stage) - num_kept if num_kept else 0):
        shutil.rmtree(folder.iteration(stage, iteration).checkpoint, ignore_errors=True)


def list_differences(old: Any, new: Any, key: str = "") -> Iterator[str]:
    """Yield the dotted keys whose values differ: `{"a": {"b": 1}}` and `{"a": {"b": 2}}` → `a.b`."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**new, **old}:
            # `...` stands for a missing value.
            yield from list_differences(old.get(name, ...), new.get(name, ...), f"{key}.{name}" if key else str(name))
    elif old != new:
        yield key


def append_record(path: Path, record: BaseModel) -> None:
    """Append a record to a journal as a line of JSON."""
    append_line(path, record.model_dump_json())


def append_line(path: Path, line: str) -> None:
    """Append a line to a journal and flush it; a kill leaves at most an incomplete last line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as journal:
        cut_torn_line(journal)
        journal.write(line.encode() + b"\n")


def cut_torn_line(journal: BinaryIO) -> None:
    """Remove a last line without line end, which a kill or a full disk has left."""
    end = journal.seek(0, os.SEEK_END)
    journal.seek(max(0, end - 1))
    if journal.read() not in (b"", b"\n"):
        journal.seek(0)
        journal.truncate(journal.read().rfind(b"\n") + 1)


def read_records(path: Path, kind: type[R], containing: str = "") -> Iterator[R]:
    """Yield those records of a journal whose line contains `containing`. Raises UsageError if such a line is damaged."""
    for place, line in read_lines(path, containing):
        try:
            record = kind.model_validate_json(line)
        except ValidationError as error:
            fault = first_fault(error)
            raise UsageError(f"{place} is damaged ({fault}): remove that line, or restore the file") from None
        yield record


def read_lines(path: Path, containing: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield position (`file:line`) and text of the complete lines of a journal that contain the text `containing`."""
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
    """Read a JSON file of a run. Raises UsageError if it is missing or unreadable."""
    text = read_text(path, "", "give a run folder, or put back a copy of the file")
    try:
        return parse_json(text)
    except ValueError as error:
        raise UsageError(f"{path} is damaged ({error}): put back a copy of it, or start a new run") from None
