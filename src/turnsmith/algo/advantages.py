"""Advantages within a group, and the test for groups without signal (paper §3.2).

Only members whose outcome counts in the group (`OUTCOMES`) enter its statistics, so infrastructure failures do not
affect siblings.
"""

import statistics
from collections.abc import Callable
from typing import Literal

from turnsmith.config import Section
from turnsmith.types import OUTCOMES, Group

DELTA = 1e-6
"""Constant added to the standard deviation, as in the authors' public example; the paper gives no value."""


def normalised(group: Group, options: Section) -> dict[str, float]:
    """Return (R − mean) / (population std + δ) of each member that trains, by trajectory id."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), statistics.pstdev(rewards) + DELTA))


def centred(group: Group, options: Section) -> dict[str, float]:
    """Return R − mean of each member that trains, by trajectory id."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), 1.0))


def leave_one_out(group: Group, options: Section) -> dict[str, float]:
    """Return R − mean of the other members, for each member that trains: (R − mean) · n / (n − 1)."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), (len(rewards) - 1) / len(rewards)))


def _compare(group: Group, measure: Callable[[list[float]], tuple[float, float]]) -> dict[str, float]:
    """Return (R − baseline) / scale of each member that trains; empty if fewer than two members count."""
    rewards = _counted_rewards(group)
    if len(rewards) < 2:
        return {}
    baseline, scale = measure(rewards)
    members = zip(group.trajectories, group.rewards, strict=True)
    return {t.trajectory_id: (reward - baseline) / scale for t, reward in members if OUTCOMES[t.outcome].in_loss}


def has_signal(group: Group, rule: Literal["final", "resolved"]) -> bool:
    """Return False if the group should be dropped: fewer than two members count, or all agree.

    `final` compares R_final with the length term (the literal reading); `resolved` compares test verdicts.
    """
    verdicts = [each.resolved for each in group.trajectories if OUTCOMES[each.outcome].in_group]
    return len(set(_counted_rewards(group) if rule == "final" else verdicts)) > 1


def _counted_rewards(group: Group) -> list[float]:
    """Return R_final of the members that enter the group's statistics."""
    members = zip(group.trajectories, group.rewards, strict=True)
    return [reward for trajectory, reward in members if OUTCOMES[trajectory.outcome].in_group]
