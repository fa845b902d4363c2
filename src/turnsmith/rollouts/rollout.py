"""Rollouts to be made: of which tasks, and with whose noise."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnsmith.types import SamplingParams, Task, Trajectory


@dataclass(frozen=True)
class Rollout:
    """One rollout to be made."""

    task: Task
    layers: tuple[Path, ...]
    trajectory: Trajectory
    """Its record, which has only just begun."""
    decoding: SamplingParams | None = None
    """How an evaluation samples; None where the policy itself is sampled."""


def plan_rollouts(
    tasks: Sequence[tuple[Task, tuple[Path, ...]]], *, prefix: str, iteration: int, num_each: int, noise: str
) -> list[Rollout]:
    """`num_each` rollouts of each task, siblings side by side so that they share their prompt's computation.

    `noise` names the stream that their seeds come from: each task and each sibling has noise of its own.
    """
    return [
        Rollout(
            task,
            layers,
            Trajectory(
                trajectory_id=f"{prefix}/{task.instance_id}/{index}",
                group_id=f"{prefix}/{task.instance_id}",
                index=index,
                instance_id=task.instance_id,
                iteration=iteration,
                seed=draw_seed(f"{noise}/{task.instance_id}/{index}"),
            ),
        )
        for task, layers in tasks
        for index in range(num_each)
    ]


def draw_seed(name: str) -> int:
    """The seed that belongs to a name; 48 bits."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
