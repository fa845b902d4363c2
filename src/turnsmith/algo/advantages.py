"""Advantages of trajectories relative to their group, and the check whether a group's results differ (paper §3.2).

The table `OUTCOMES` says which outcomes enter a group's mean and standard deviation. Failures of sandbox or engine do not,
so they leave the other trajectories' advantages unchanged.
"""

import statistics
from collections.abc import Callable
from typing import Literal

from turnsmith.config import Section
from turnsmith.types import OUTCOMES, Group

DELTA = 1e-6
"""Constant δ added to the standard deviation of a group's rewards. The paper gives no value; 1e-6 is from its authors' code."""


def normalised(group: Group, options: Section) -> dict[str, float]:
    """Return advantages by trajectory id: (reward − mean of the group) / (population std of the group + δ)."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), statistics.pstdev(rewards) + DELTA))


def centred(group: Group, options: Section) -> dict[str, float]:
    """Return advantages by trajectory id: reward − mean reward of the group."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), 1.0))


def leave_one_out(group: Group, options: Section) -> dict[str, float]:
    """Return advantages by trajectory id: reward − mean reward of the group's other trajectories."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), (len(rewards) - 1) / len(rewards)))


def _compare(group: Group, measure: Callable[[list[float]], tuple[float, float]]) -> dict[str, float]:
    """Return (reward − baseline) / scale by trajectory id, with (baseline, scale) from `measure(rewards of the group)`."""
    rewards = _counted_rewards(group)
    if len(rewards) < 2:
        return {}
    baseline, scale = measure(rewards)
    members = zip(group.trajectories, group.rewards, strict=True)
    return {t.trajectory_id: (reward - baseline) / scale for t, reward in members if OUTCOMES[t.outcome].in_loss}


def has_signal(group: Group, rule: Literal["final", "resolved"]) -> bool:
    """Return False, so that the group is dropped, if fewer than two trajectories have a result or all results are equal.

    Results are rewards with length penalty if the rule is `final` (as in the paper), and verdicts of the tests if it is
    `resolved`. Failures of sandbox or engine have no result.
    """
    verdicts = [each.resolved for each in group.trajectories if OUTCOMES[each.outcome].in_group]
    return len(set(_counted_rewards(group) if rule == "final" else verdicts)) > 1


def _counted_rewards(group: Group) -> list[float]:
    """Return the rewards of a group, without those of trajectories that sandbox or engine failures ended."""
    members = zip(group.trajectories, group.rewards, strict=True)
    return [reward for trajectory, reward in members if OUTCOMES[trajectory.outcome].in_group]
