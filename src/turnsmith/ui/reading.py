"""Readers of run folders: configuration, results, metrics of the iterations, trajectories.

Folders of older or modified versions of Turnsmith can be read, since only the displayed keys of a configuration are validated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from turnsmith.config import COLD_START, RFT, TRAIN
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


class SectionOutline(BaseModel):
    """Section of a configuration, with the keys that views need. Other keys, known or not, are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = ""
    kind: str = ""
    path: str | None = None
    """Path of the model or task file of this section; None if the run made the tasks."""


class StageOutline(SectionOutline):
    """Section of a configuration about an RL stage."""

    name: str


class Outline(BaseModel):
    """Parts of a run's configuration that views need: stages, task sets, sandbox and model."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    train_tasks: SectionOutline | None = None
    eval_tasks: dict[str, SectionOutline] = {}
    cold_start: dict[str, Any] | None = None
    rft: dict[str, Any] | None = None
    stages: list[StageOutline] = []
    sandbox: SectionOutline = SectionOutline()
    model: SectionOutline = SectionOutline()

    @property
    def stage_names(self) -> list[str]:
        """Return the names of the run's stages in order: base, cold start, RFT, RL stages."""
        imitation = {COLD_START: self.cold_start, RFT: self.rft}
        given = [name for name, part in imitation.items() if part is not None]
        return ["base", *given, *(stage.name for stage in self.stages)]

    @property
    def trains(self) -> bool:
        """Return True if the run has a training stage."""
        return len(self.stage_names) > 1

    @property
    def task_sets(self) -> dict[str, SectionOutline]:
        """Return all task sets by folder name, the training set first."""
        return ({TRAIN: self.train_tasks} if self.train_tasks else {}) | self.eval_tasks


@dataclass(frozen=True)
class FinishedIteration:
    stage: str
    number: int
    metrics: dict[str, float]


def read_outline(folder: RunFolder) -> Outline:
    """Read the parts of a run's configuration that views need. Raises UsageError if the folder is not a run folder."""
    try:
        return Outline.model_validate(read_json(folder.config))
    except ValidationError as error:
        raise UsageError(explain(error, folder.config, Outline, [])) from None


def find_state(folder: RunFolder) -> Literal["finished", "stopped", "running", "unfinished"]:
    """Find the state of a run. A run with `results.json` is finished, even if its process still exists."""
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
    """Read requests to the model endpoint and their costs, by stage; empty if the run used none."""
    return read_entries(folder.costs) if folder.costs.exists() else {}


def read_iterations(folder: RunFolder) -> list[FinishedIteration]:
    """Read all finished iterations, in the order of the run. RFT counts as one iteration."""
    return [
        FinishedIteration(stage, number, read_json(folder.iteration(stage, number).metrics))
        for stage in read_outline(folder).stage_names
        for number in range(folder.next_iteration(stage))
    ]


def list_entries(folder: RunFolder, beginning: str = "", task: str = "") -> Iterator[JournalEntry]:
    """Read trajectories whose short id is `beginning` or whose long id starts with it, and whose task id starts with `task`.

    Of a repeated rollout, only the last trajectory is read. An empty `beginning` or `task` selects all.
    """
    for journal in folder.journals():
        entries = journals.read_entries(journal, beginning, containing=task)
        last = {entry.trajectory.trajectory_id: entry for entry in entries}
        yield from (entry for entry in last.values() if entry.trajectory.instance_id.startswith(task))


def name_stage(entry: JournalEntry) -> str:
    """Name the part of the run in which a trajectory was made: `rft`, `stage1-0003`, `eval-stage1`."""
    trajectory = entry.trajectory
    stage = trajectory.trajectory_id.removesuffix(f"/{trajectory.instance_id}/{trajectory.index}")
    _, at, iterations = entry.journal.parts[-3].partition("@")
    return f"{stage}{at}{iterations}"


def read_prompt(folder: RunFolder, trajectory: Trajectory) -> str:
    """Read the first prompt, with system prompt and demonstration, as the policy saw it. Raises UsageError.

    Tokens are decoded by the tokenizer of the initial model or, if it is missing, of a checkpoint in the run folder.
    """
    if trajectory.form == "messages":
        return "\n\n".join(f"[{message.role}]\n{message.text}" for message in trajectory.prompt)
    tokenizer = load_tokenizer(find_tokenizer(folder))
    token_ids = trajectory.token_ids[: trajectory.prompt_tokens].tolist()
    return str(tokenizer.decode(token_ids, skip_special_tokens=False))


@cache
def load_tokenizer(file: Path) -> Any:
    """Load a tokenizer without the library transformers, whose import takes seconds. Raises UsageError."""
    require("tokenizers", subject="the prompt")
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises nothing narrower
        raise UsageError(f"cannot read {file} ({error}): restore it from a copy") from None


def find_tokenizer(folder: RunFolder) -> Path:
    """Find the policy's tokenizer.json. Raises UsageError if it is missing."""
    path = read_outline(folder).model.path or "tiny"
    kept = sorted(folder.path.glob("stages/*/*/checkpoint/tokenizer.json"))
    given = locate(path) / "tokenizer.json"
    found = next((file for file in [given, *kept] if file.is_file()), None)
    if found is None:
        raise UsageError(f"the tokenizer of the policy is missing: put a copy of its tokenizer.json at {given}")
    return found


def find_task(folder: RunFolder, instance_id: str) -> Task | None:
    """Find the task of a trajectory; None if its task set cannot be read."""
    if folder.issue.exists():
        return Task.model_validate(read_json(folder.issue))
    return next((task for task in read_all_tasks(folder) if task.instance_id == instance_id), None)


def read_all_tasks(folder: RunFolder) -> Iterator[Task]:
    """Read the tasks of all task sets of a run, or the task of `turnsmith solve`."""
    if folder.issue.exists():
        yield Task.model_validate(read_json(folder.issue))
    for name in read_outline(folder).task_sets:
        yield from read_tasks(folder, name)


def read_tasks(folder: RunFolder, name: str) -> list[Task]:
    """Read the tasks of a task set; empty if its file is missing, e.g. on another machine."""
    source = read_outline(folder).task_sets.get(name)
    try:
        return load_tasks(Path(source.path) if source and source.path else folder.task_set(name))
    except UsageError:
        return []
