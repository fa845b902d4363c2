"""Evaluation by several runs over each task set: Pass@1 ± SEM over runs as in the paper, unbiased pass@k, and outcome counts."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from turnsmith.config import EvalConfig, RunConfig
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.results import BASE, EvalResult
from turnsmith.recipes.stats import mean_and_sem, pass_at_k
from turnsmith.rollouts.rollout import plan_rollouts
from turnsmith.runs.folder import RunFolder, read_json, write_json
from turnsmith.runs.versions import find_versions
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.types import OUTCOMES, Outcome, StopReason, Trajectory


async def evaluate_inside(stage: str, num_done: int, run: RunContext) -> None:
    """Evaluate the policy between two iterations of a stage, after `num_done` of them, if `eval.every` asks for it."""
    if is_evaluated(num_done, run.config.eval):
        await evaluate_all(run.eval_tasks, run.folder.name_checkpoint(stage, num_done), run)


def is_evaluated(num_done: int, config: EvalConfig) -> bool:
    """Return True if `eval.every` asks for an evaluation after `num_done` iterations."""
    return bool(config.every) and num_done > 0 and num_done % config.every == 0


async def evaluate_all(task_sets: Sequence[TaskSet], checkpoint: str, run: RunContext) -> list[EvalResult]:
    """Evaluate a checkpoint on task sets, one after the other, and report the results."""
    results = [await evaluate(checkpoint, task_set, run) for task_set in task_sets]
    announce(checkpoint, results, run.progress)
    run.feed.update()
    return results


def announce(checkpoint: str, results: Sequence[EvalResult], progress: Progress) -> None:
    """Report a checkpoint's Pass@1 on each task set, in one line per set."""
    for result in results:
        note = f" ± {result.sem:.1%}" if result.sem is not None else ""
        progress.log(f"{checkpoint} on {result.task_set}: Pass@1 {result.pass_at_1:.1%}{note}")


def read_finished(config: RunConfig, folder: RunFolder) -> list[EvalResult]:
    """Read the results of a run that trains nothing, if all its evaluations are finished; else return an empty list."""
    files = [folder.result(BASE, name) for name in config.eval_tasks]
    if config.training or not all(file.exists() for file in files):
        return []
    return [EvalResult.model_validate(read_json(file)) for file in files]


async def evaluate(stage: str, task_set: TaskSet, run: RunContext) -> EvalResult:
    """Evaluate the current policy on a task set with the limits of `[agent]`. If a result is already stored, read it instead."""
    config, folder = run.config, run.folder
    file = folder.result(stage, task_set.name)
    if file.exists():
        return EvalResult.model_validate(read_json(file))
    rollouts = plan_rollouts(
        task_set.list_trees(),
        prefix=f"eval-{stage}",
        iteration=0,
        num_each=config.eval.num_runs,
        seed_stream=f"{config.seed}/eval",
    )
    if not config.eval.sampling.is_policy:
        rollouts = [replace(rollout, decoding=config.eval.sampling) for rollout in rollouts]
    journal = folder.eval_trajectories(stage, task_set.name)
    label = f"evaluating {stage} on {task_set.name}"
    trajectories = await run.generator.collect(rollouts, config.agent, journal, label=label)
    summary = summarise(stage, task_set.name, trajectories, config.eval)
    result = summary.model_copy(update={"versions": find_versions()})
    write_json(file, result.model_dump())
    return result


def summarise(stage: str, task_set: str, trajectories: Sequence[Trajectory], config: EvalConfig) -> EvalResult:
    """Compute the statistics of an evaluation from the trajectories that were not lost to the infrastructure."""
    counted = [t for t in trajectories if OUTCOMES[t.outcome].in_evaluation]
    attempts = group_attempts(counted)
    worst, best = (fill_in(trajectories, outcome) for outcome in (Outcome.UNRESOLVED, Outcome.RESOLVED))
    mean, sem = mean_and_sem(rates_of_runs(counted))
    return EvalResult(
        stage=stage,
        task_set=task_set,
        pass_at_1=mean,
        sem=None if math.isnan(sem) else sem,
        pass_at_k=mean_pass_at_k(list(attempts.values()), config.k),
        k=config.k,
        num_tasks=len(attempts),
        num_runs=config.num_runs,
        mean_turns=fmean(t.num_turns for t in counted),
        submit_rate=fmean(t.stop_reason is StopReason.SUBMITTED for t in counted),
        outcomes=dict(Counter(t.outcome.value for t in trajectories)),
        per_task={name: fmean(tries) for name, tries in attempts.items()},
        num_lost=len(trajectories) - len(counted),
        lost_per_task=dict(Counter(t.instance_id for t in trajectories if not OUTCOMES[t.outcome].in_evaluation)),
        num_attempts=len(counted),
        num_tasks_at_k=sum(len(tries) >= config.k for tries in attempts.values()),
        num_tasks_in_set=len(worst),
        pass_at_1_bounds=(fmean(map(fmean, worst)), fmean(map(fmean, best))),
        pass_at_k_bounds=(mean_pass_at_k(worst, config.k), mean_pass_at_k(best, config.k)),
        sampling=config.sampling.model_dump(exclude_defaults=True),
        isolation=", ".join(sorted({t.isolation for t in counted})),
    )


def group_attempts(trajectories: Sequence[Trajectory], key: str = "instance_id") -> dict[Any, list[bool]]:
    """Map each value of the field `key` to a list: for every trajectory with this value, whether it resolved its task."""
    attempts = defaultdict[Any, list[bool]](list)
    for trajectory in trajectories:
        attempts[getattr(trajectory, key)].append(trajectory.resolved)
    return attempts


def fill_in(trajectories: Sequence[Trajectory], outcome: Outcome) -> list[list[bool]]:
    """Return for each task whether each attempt resolved it. Attempts lost to the infrastructure count as `outcome`."""
    filled = [t if OUTCOMES[t.outcome].in_evaluation else t.grow(outcome=outcome) for t in trajectories]
    return [*group_attempts(filled).values()]


def mean_pass_at_k(attempts: Sequence[Sequence[bool]], k: int) -> float | None:
    """Return the mean pass@k over the tasks with at least k attempts; None if there are no such tasks."""
    values = [pass_at_k(len(tries), sum(tries), k) for tries in attempts if len(tries) >= k]
    return fmean(values) if values else None


def rates_of_runs(counted: Sequence[Trajectory]) -> list[float]:
    """Return the share of resolved attempts in each run over the task set. A run without a counted attempt is left out."""
    return [fmean(resolved) for _, resolved in sorted(group_attempts(counted, "index").items())]
