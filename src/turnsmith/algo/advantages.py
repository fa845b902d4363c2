"""How much better an attempt was than its siblings, and which groups say nothing (paper §3.2).

Only members whose outcome counts in the group (`OUTCOMES`) enter its statistics: what the infrastructure lost leaves no
trace in a sibling's advantage.
"""

import statistics
from collections.abc import Callable
from typing import Literal

from turnsmith.config import Section
from turnsmith.types import OUTCOMES, Group

DELTA = 1e-6
"""Added to the standard deviation; the paper gives no value, the team's own public example this one."""

_DEVIATIONS = {"population": statistics.pstdev, "sample": statistics.stdev}


class NormalisedOptions(Section):
    """What `normalised` reads."""

    advantage_std: Literal["population", "sample"]


def normalised(group: Group, options: NormalisedOptions) -> dict[str, float]:
    """(R − mean) / (std + δ) of each member that trains, by trajectory id."""
    deviation = _DEVIATIONS[options.advantage_std]
    return _compare(group, lambda rewards: (statistics.fmean(rewards), deviation(rewards) + DELTA))


def centred(group: Group, options: Section) -> dict[str, float]:
    """R − mean of each member that trains, by trajectory id."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), 1.0))


def leave_one_out(group: Group, options: Section) -> dict[str, float]:
    """R − the mean of the other members, of each member that trains: (R − mean) · n / (n − 1)."""
    return _compare(group, lambda rewards: (statistics.fmean(rewards), (len(rewards) - 1) / len(rewards)))


def _compare(group: Group, measure: Callable[[list[float]], tuple[float, float]]) -> dict[str, float]:
    """(R − baseline) / scale of each member that trains; none where fewer than two count."""
    rewards = _counted_rewards(group)
    if len(rewards) < 2:
        return {}
    baseline, scale = measure(rewards)
    members = zip(group.trajectories, group.rewards, strict=True)
    return {t.trajectory_id: (reward - baseline) / scale for t, reward in members if OUTCOMES[t.outcome].in_loss}


def has_signal(group: Group, rule: Literal["final", "resolved"]) -> bool:
    """False for a group to drop: fewer than two members count, or all agree.

    `final` compares R_final, length term included (the literal reading); `resolved` compares the verdicts of the tests.
    """
    verdicts = [each.resolved for each in group.trajectories if OUTCOMES[each.outcome].in_group]
    return len(set(_counted_rewards(group) if rule == "final" else verdicts)) > 1


def _counted_rewards(group: Group) -> list[float]:
    """R_final of the members that enter the group's statistics."""
    members = zip(group.trajectories, group.rewards, strict=True)
    return [reward for trajectory, reward in members if OUTCOMES[trajectory.outcome].in_group]
