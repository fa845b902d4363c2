"""Plans of rollouts: tasks, group ids, random seeds."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from turnsmith.types import SamplingParams, TaskTree, Trajectory


@dataclass(frozen=True)
class Rollout:
    """Rollout to make."""

    tree: TaskTree
    trajectory: Trajectory
    """Initial trajectory: names and seed."""
    decoding: SamplingParams | None = None
    """Sampling settings of an evaluation; None samples the policy itself."""


def plan_rollouts(
    trees: Sequence[TaskTree], *, prefix: str, iteration: int, num_each: int, seed_stream: str
) -> list[Rollout]:
    """Plan `num_each` rollouts of each task; siblings are adjacent, so that engines share their prompt.

    `seed_stream` names a stream of seeds; each task and sibling gets its own seed.
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
    """Derive a 48-bit seed from a name."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big")
