"""Selection of tasks whose first prompt fits into the context limits of a run."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from turnsmith.agent.loop import find_misfit
from turnsmith.config import TRAIN, AgentConfig, TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.context import RunContext
from turnsmith.tasks.gradability import Exclusion, describe_excluded
from turnsmith.tasks.task_set import TaskSet
from turnsmith.types import Task


@dataclass(frozen=True)
class ContextLimit:
    """Context limit of RFT, of an RL stage or of evaluations."""

    agent: AgentConfig
    """Agent configuration with the limit, `max_context`."""
    key: str
    """Configuration key of the limit, for messages."""
    demonstration: bool = False
    """True if the first prompt contains a demonstration."""


def keep_fitting(run: RunContext) -> RunContext:
    """Keep the tasks whose first prompt leaves room for a turn under every context limit of the run.

    Raises UsageError if a task that the configuration names or every task of a set does not fit.
    """
    evaluation = [ContextLimit(run.config.agent, "agent.max_context")]
    training = list(list_limits(run))
    sources = run.config.task_sets
    for limit in [*evaluation, *training]:
        run.policy.dialogues.check_budget(limit.agent.max_observation_tokens)
    eval_tasks = [fit(each, evaluation, find_named(sources.get(each.name)), run) for each in run.eval_tasks]
    train_tasks = fit(run.train_tasks, training, find_named(sources.get(TRAIN)), run)
    return replace(run, eval_tasks=eval_tasks, train_tasks=train_tasks)


def list_limits(run: RunContext) -> Iterator[ContextLimit]:
    if rft := run.config.rft:
        yield ContextLimit(run.agent_for(rft), "rft.max_context", rft.demonstration)
    for index, stage in enumerate(run.config.stages):
        yield ContextLimit(run.agent_for(stage), f"stages.{index}.max_context")


def find_named(source: TaskSetConfig | None) -> Collection[str]:
    """Return the ids of tasks that a task set's configuration selects by id."""
    return source.tasks if source else ()


def fit(task_set: TaskSet, limits: Sequence[ContextLimit], named: Collection[str], run: RunContext) -> TaskSet:
    """Leave out and report the tasks of a set whose first prompt exceeds a context limit. Raises UsageError."""
    misfits = {task.instance_id: misfit for task in task_set.tasks if (misfit := find_exceeded(task, limits, run))}
    kept = [task for task in task_set.tasks if task.instance_id not in misfits]
    if refused := next((name for name in misfits if name in named or not kept), ""):
        raise UsageError(f"task {refused}: {misfits[refused].detail}")
    for line in describe_excluded(misfits, len(task_set.tasks), "cannot be used"):
        run.progress.log(f"{task_set.name}: {line}")
    return replace(task_set, tasks=kept, excluded={**task_set.excluded, **misfits})


def find_exceeded(task: Task, limits: Sequence[ContextLimit], run: RunContext) -> Exclusion | None:
    """Describe the first context limit that a task's first prompt exceeds; None if it fits all."""
    for limit in limits:
        if misfit := find_misfit(
            task, run.policy.dialogues, run.scaffold, limit.agent, demonstration=limit.demonstration, limit=limit.key
        ):
            return Exclusion(f"the first prompt does not fit into {limit.key} ({limit.agent.max_context})", misfit)
    return None
