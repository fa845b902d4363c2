"""Trajectories with only an outcome."""

from turnsmith.types import Outcome, StopReason, Trajectory


def attempt(task: str, index: int, outcome: Outcome) -> Trajectory:
    """Return attempt `index` at a task."""
    return Trajectory(
        trajectory_id=f"s/{task}/{index}", group_id=f"s/{task}", index=index, instance_id=task, iteration=0, seed=0,
        token_ids=[1], sampled=[False], logprobs=[0.0], stop_reason=StopReason.SUBMITTED, outcome=outcome,
    )  # fmt: skip
