"""Curriculum: the tasks of an RL stage, and the tasks of each iteration."""

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

from turnsmith.config import StageConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.context import RunContext
from turnsmith.runs.folder import RunFolder, find_stage, read_json, write_json
from turnsmith.runs.journal import read_last
from turnsmith.tasks.task_set import TaskSet
from turnsmith.types import OUTCOMES


def choose_pool(pool: TaskSet, stage: StageConfig, before: str, run: RunContext) -> TaskSet:
    """Choose the tasks of a stage. With `curriculum`, drop tasks by their solve rates in an earlier stage.

    The earlier stage is `before` of this run, or `stage.curriculum_from` (RUN:STAGE) of another run. The ids of the kept tasks
    are stored, so that a resumed stage has the same tasks. Raises UsageError.
    """
    if not stage.curriculum:
        return pool
    file = run.folder.curriculum(stage.name)
    if not file.exists():
        past = find_stage(stage.curriculum_from) if stage.curriculum_from else (run.folder, before)
        kept = apply_curriculum(pool, *past)
        write_json(file, [task.instance_id for task in kept.tasks])
    names = set(read_json(file))
    run.progress.log(f"curriculum: {len(names)} of {len(run.train_tasks.tasks)} tasks remain")
    return replace(pool, tasks=[task for task in pool.tasks if task.instance_id in names])


def apply_curriculum(pool: TaskSet, folder: RunFolder, stage: str) -> TaskSet:
    """Drop tasks whose solve rate in a stage is 0, or 2/3 or more (paper §4.3). Raises UsageError if none remains."""
    solved, tried = count_solved(folder, stage)
    kept = [task for task in pool.tasks if is_kept(solved[task.instance_id], tried[task.instance_id])]
    if not kept:
        raise UsageError(
            f"the curriculum after {stage} of {folder.path} leaves none of {len(pool.tasks)} tasks: "
            "give more tasks, or set curriculum = false"
        )
    return replace(pool, tasks=kept)


def is_kept(num_resolved: int, num_rollouts: int) -> bool:
    """Return True if the solve rate is above 0 and below 2/3: True for 6 of 10, False for 2 of 3."""
    return num_resolved > 0 and Fraction(num_resolved, num_rollouts) < Fraction(2, 3)


def count_solved(folder: RunFolder, stage: str) -> tuple[Counter[str], Counter[str]]:
    """Count, for each task in a stage, resolved attempts and all attempts that were not lost to the infrastructure."""
    solved, tried = Counter[str](), Counter[str]()
    for journal in folder.stage_journals(stage):
        for trajectory in read_last(journal):
            if OUTCOMES[trajectory.outcome].in_evaluation:
                tried[trajectory.instance_id] += 1
                solved[trajectory.instance_id] += trajectory.resolved
    return solved, tried


def draw_tasks(pool: TaskSet, iteration: int, num_tasks: int, seed: int) -> TaskSet:
    """Draw the tasks of an iteration from shuffled passes over the pool, so that each task comes up equally often.

    The draws of all earlier iterations are made again, so the result depends only on the arguments.
    """
    num = min(num_tasks, len(pool.tasks))
    drawn, left = list[int](), list[int]()
    for each in range(iteration + 1):
        drawn, left = left[:num], left[num:]
        if len(drawn) < num:
            order = list(range(len(pool.tasks)))
            random.Random(f"pass {seed} {each}").shuffle(order)
            # Tasks of the new pass that this iteration already has are left for the next iteration.
            fresh = [index for index in order if index not in drawn][: num - len(drawn)]
            drawn, left = drawn + fresh, [index for index in order if index not in fresh]
    return replace(pool, tasks=[pool.tasks[index] for index in drawn])
