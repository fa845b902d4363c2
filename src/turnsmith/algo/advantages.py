"""Group-normalised advantages: how much better an attempt was than its siblings, and which groups say nothing (paper §3.2).

Only members whose outcome counts in the group (`OUTCOMES`) enter mean and standard deviation: what the infrastructure
lost leaves no trace in a sibling's advantage.
"""

import statistics
from typing import Literal

from turnsmith.types import OUTCOMES, Group, Trajectory

DELTA = 1e-6
"""Added to the standard deviation; the paper gives no value, the team's own public example this one."""

_DEVIATIONS = {"population": statistics.pstdev, "sample": statistics.stdev}


def group_advantages(group: Group, std: Literal["population", "sample"]) -> dict[str, float]:
    """Advantage (R − mean) / (std + δ) of each member that trains, by trajectory id; none where fewer than two count."""
    rewards = counted_rewards(group)
    if len(rewards) < 2:
        return {}
    mean, scale = statistics.fmean(rewards), _DEVIATIONS[std](rewards) + DELTA
    members = zip(group.trajectories, group.rewards, strict=True)
    return {t.trajectory_id: (reward - mean) / scale for t, reward in members if OUTCOMES[t.outcome].in_loss}


def has_signal(group: Group, rule: Literal["final", "resolved"]) -> bool:
    """False for a group to drop: fewer than two members count, or all agree.

    `final` compares R_final, length term included (the literal reading); `resolved` compares the verdicts of the tests.
    """
    if rule == "final":
        return len(set(counted_rewards(group))) > 1
    return len({trajectory.resolved for trajectory in _counted(group)}) > 1


def counted_rewards(group: Group) -> list[float]:
    """R_final of the members that enter the group's statistics."""
    members = zip(group.trajectories, group.rewards, strict=True)
    return [reward for trajectory, reward in members if OUTCOMES[trajectory.outcome].in_group]


def _counted(group: Group) -> list[Trajectory]:
    return [trajectory for trajectory in group.trajectories if OUTCOMES[trajectory.outcome].in_group]
