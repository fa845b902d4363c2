"""Planned rollouts of tasks, with group ids and random seeds."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from turnsmith.types import SamplingParams, TaskTree, Trajectory


@dataclass(frozen=True)
class Rollout:
    """Rollout to run: task, trajectory id, group id, random seed and sampling settings."""

    tree: TaskTree
    trajectory: Trajectory
    """Trajectory without turns, which has the ids and the random seed of the rollout."""
    decoding: SamplingParams | None = None
    """Sampling settings of an evaluation; None samples with temperature 1 and no filters."""


def plan_rollouts(
    trees: Sequence[TaskTree], *, prefix: str, iteration: int, num_each: int, seed_stream: str
) -> list[Rollout]:
    """Plan `num_each` rollouts of each task. Rollouts of a task are adjacent, so that engines compute their common prompt once.

    Each rollout gets its own random seed, derived from `seed_stream`, the task's id and the rollout's number within the task.
    """
    return [
        Rollout(
            tree,
            Trajectory(
                trajectory_id=f"{prefix}/{tree.instance_id}/{index}",
                group_id=f"{prefix}/{tree.instance_id}",
                index=index,
                instance_id=tree.instance_id,
                iteration=iteration,
                seed=draw_seed(f"{seed_stream}/{tree.instance_id}/{index}"),
            ),
        )
        for tree in trees
        for index in range(num_each)
    ]


def draw_seed(name: str) -> int:
    """Derive a 48-bit random seed from a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
