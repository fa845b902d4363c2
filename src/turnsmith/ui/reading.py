"""What a run folder holds, read for people: its outline, results, metrics of the iterations, trajectories.

Folders of older and of forked versions are read too: of a configuration only what is shown is looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from turnsmith.config import TRAIN
from turnsmith.config.extras import require
from turnsmith.config.files import explain
from turnsmith.engines.endpoint.account import Entry, read_entries
from turnsmith.errors import UsageError
from turnsmith.policies import locate
from turnsmith.recipes import results
from turnsmith.runs import journal as journals
from turnsmith.runs.folder import RunFolder, is_held, read_json
from turnsmith.runs.journal import JournalEntry
from turnsmith.tasks.dataset import load_tasks
from turnsmith.types import Task, Trajectory


class Excerpt(BaseModel):
    """Part of a configuration; keys that are not shown, or that this version does not know, are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class TaskSource(Excerpt):
    path: str | None = None
    """Task file, or None where the run made its tasks."""


class StageName(Excerpt):
    name: str


class SandboxKind(Excerpt):
    kind: str = ""


class ModelPath(Excerpt):
    path: str = "tiny"


class Outline(Excerpt):
    """What a run consists of."""

    train_tasks: TaskSource | None = None
    eval_tasks: dict[str, TaskSource] = {}
    rft: dict[str, Any] | None = None
    stages: list[StageName] = []
    sandbox: SandboxKind = SandboxKind()
    model: ModelPath = ModelPath()

    @property
    def stage_names(self) -> list[str]:
        """Names of the stages in order: base, RFT, the stages of RL."""
        return ["base", *(["rft"] if self.rft is not None else []), *(stage.name for stage in self.stages)]

    @property
    def trains(self) -> bool:
        """Does anything of it learn?"""
        return len(self.stage_names) > 1

    @property
    def task_sets(self) -> dict[str, TaskSource]:
        """All task sets by the names of their folders, the training set first."""
        return ({TRAIN: self.train_tasks} if self.train_tasks else {}) | self.eval_tasks


@dataclass(frozen=True)
class FinishedIteration:
    """One finished iteration."""

    stage: str
    number: int
    metrics: dict[str, float]


def read_outline(folder: RunFolder) -> Outline:
    """What a run consists of. Raises UsageError where the folder is not one of a run."""
    try:
        return Outline.model_validate(read_json(folder.config))
    except ValidationError as error:
        raise UsageError(explain(error, folder.config, Outline, [])) from None


def find_state(folder: RunFolder) -> Literal["finished", "stopped", "running", "unfinished"]:
    """Tell how a run stands. One that writes its results, though its process is still there, is finished."""
    if folder.stop_reason.exists():
        return "stopped"
    if folder.results.exists():
        return "finished"
    return "running" if is_held(folder) else "unfinished"


def list_evaluations(folder: RunFolder) -> list[tuple[str, str]]:
    """List stage and task set of each finished evaluation, in the order of the run."""
    outline = read_outline(folder)
    return results.list_evaluations(folder, outline.stage_names, [*outline.eval_tasks])


def read_results(folder: RunFolder) -> list[dict[str, Any]]:
    """Read the result of each finished evaluation, in the order of the run."""
    outline = read_outline(folder)
    return results.read_results(folder, outline.stage_names, [*outline.eval_tasks])


def read_costs(folder: RunFolder) -> dict[str, Entry]:
    """What an endpoint was asked, by stage; nothing where none was."""
    return read_entries(folder.costs) if folder.costs.exists() else {}


def read_iterations(folder: RunFolder) -> list[FinishedIteration]:
    """All finished iterations, in the order of the run; RFT is one."""
    return [
        FinishedIteration(stage, number, read_json(folder.metrics(stage, number)))
        for stage in read_outline(folder).stage_names
        for number in range(folder.next_iteration(stage))
    ]


def list_entries(folder: RunFolder, beginning: str = "", task: str = "") -> Iterator[JournalEntry]:
    """Read the trajectory with a short id, or those whose long ids begin so, of tasks whose ids begin so.

    Of one that was lost and made again, the last is read.
    """
    for journal in folder.journals():
        entries = journals.read_entries(journal, beginning, containing=task)
        last = {entry.trajectory.trajectory_id: entry for entry in entries}
        yield from (entry for entry in last.values() if entry.trajectory.instance_id.startswith(task))


def name_stage(entry: JournalEntry) -> str:
    """Name the part of a run that made a trajectory: `rft`, `stage1-0003`, `eval-stage1`; `eval-stage1@4` what it once was."""
    trajectory = entry.trajectory
    stage = trajectory.trajectory_id.removesuffix(f"/{trajectory.instance_id}/{trajectory.index}")
    _, at, iterations = entry.journal.parts[-3].partition("@")
    return f"{stage}{at}{iterations}"


def read_prompt(folder: RunFolder, trajectory: Trajectory) -> str:
    """Read the first prompt, with system prompt and demonstration, as the policy read it. Raises UsageError where nothing can.

    Tokens are spelled by the tokenizer of the model that the run began with, or of a checkpoint that the run has kept.
    """
    if trajectory.form == "messages":
        return "\n\n".join(f"[{message.role}]\n{message.text}" for message in trajectory.prompt)
    tokenizer = load_tokenizer(find_tokenizer(folder))
    token_ids = trajectory.token_ids[: trajectory.prompt_tokens].tolist()
    return str(tokenizer.decode(token_ids, skip_special_tokens=False))


@cache
def load_tokenizer(file: Path) -> Any:
    """Load a tokenizer without transformers, which takes seconds. Raises UsageError."""
    require("tokenizers", subject="the prompt")
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # it raises nothing narrower
        raise UsageError(f"cannot read {file} ({error}): put back a copy of it") from None


def find_tokenizer(folder: RunFolder) -> Path:
    """Find tokenizer.json of the policy. Raises UsageError."""
    path = read_outline(folder).model.path
    kept = sorted(folder.path.glob("stages/*/*/checkpoint/tokenizer.json"))
    given = locate(path) / "tokenizer.json"
    found = next((file for file in [given, *kept] if file.is_file()), None)
    if found is None:
        raise UsageError(f"to read it, put the tokenizer.json of the policy back to {given}")
    return found


def find_task(folder: RunFolder, instance_id: str) -> Task | None:
    """The task of a trajectory, where its task set can still be read."""
    if folder.issue.exists():
        return Task.model_validate(read_json(folder.issue))
    tasks = (task for name in read_outline(folder).task_sets for task in read_tasks(folder, name))
    return next((task for task in tasks if task.instance_id == instance_id), None)


def read_tasks(folder: RunFolder, name: str) -> list[Task]:
    """The tasks of a set; none where they cannot be read any more: the folder may have come here alone."""
    source = read_outline(folder).task_sets.get(name)
    try:
        return load_tasks(Path(source.path) if source and source.path else folder.task_set(name))
    except UsageError:
        return []
