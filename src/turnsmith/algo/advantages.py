"""Advantages of trajectories relative to their group, and the check for groups without signal (paper §3.2).

The table `OUTCOMES` says which outcomes enter a group's statistics. Faults of sandbox or engine do not, so they do not affect
the other trajectories.
"""

import statistics
from collections.abc import Callable
from typing import Literal

from turnsmith.config import Section
from turnsmith.types import OUTCOMES, Group

DELTA = 1e-6
"""Constant δ added to a group's standard deviation of rewards, as in the authors' public example; the paper gives no value."""


def normalised(group: Group, options: Section) -> dict[str, float]:
    """Map the id of each trained trajectory of a group to (R − mean) / (population std + δ)."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), statistics.pstdev(rewards) + DELTA))


def centred(group: Group, options: Section) -> dict[str, float]:
    """Map the id of each trained trajectory of a group to R − mean."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), 1.0))


def leave_one_out(group: Group, options: Section) -> dict[str, float]:
    """Map the id of each trained trajectory of a group to R − mean of the others, which is (R − mean) · n / (n − 1)."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), (len(rewards) - 1) / len(rewards)))


def _compare(group: Group, measure: Callable[[list[float]], tuple[float, float]]) -> dict[str, float]:
    """Map the id of each trained trajectory to (R − baseline) / scale; empty if fewer than two count in the group."""
    rewards = _counted_rewards(group)
    if len(rewards) < 2:
        return {}
    baseline, scale = measure(rewards)
    members = zip(group.trajectories, group.rewards, strict=True)
    return {t.trajectory_id: (reward - baseline) / scale for t, reward in members if OUTCOMES[t.outcome].in_loss}


def has_signal(group: Group, rule: Literal["final", "resolved"]) -> bool:
    """Return False if a group should be dropped, since fewer than two of its trajectories count or all have the same result.

    The result is R_final with the length penalty for `final` (the paper's literal text), and the verdict of the tests for
    `resolved`.
    """
    verdicts = [each.resolved for each in group.trajectories if OUTCOMES[each.outcome].in_group]
    return len(set(_counted_rewards(group) if rule == "final" else verdicts)) > 1


def _counted_rewards(group: Group) -> list[float]:
    """Return the rewards R_final of the trajectories that enter the group's statistics."""
    members = zip(group.trajectories, group.rewards, strict=True)
    return [reward for trajectory, reward in members if OUTCOMES[trajectory.outcome].in_group]
