"""Reward of a trajectory, from the tests' verdict and a penalty for many turns (R_final in paper §3.2)."""

import random
from collections.abc import Sequence

from turnsmith.types import OUTCOMES, Group, Outcome

Result = tuple[Outcome, float]
"""Outcome of a trajectory and its reward, length penalty included."""


def shape_reward(resolved: bool, num_turns: int, *, length_threshold: int, max_turns: int) -> float:
    """Compute the reward of a trajectory: 1 if the task is resolved, else 0, plus the length penalty, which is at most 0.

    With `length_threshold` 10 and `max_turns` 40: resolved at turn 9 or 10 → 1, at 25 → 0.5, at 40 → 0; unresolved at 40 →
    −1.
    """
    return float(resolved) + length_penalty(num_turns, length_threshold=length_threshold, max_turns=max_turns)


def length_penalty(num_turns: int, *, length_threshold: int, max_turns: int) -> float:
    """Compute the length penalty: 0 up to `length_threshold` turns, then falling linearly to −1 at `max_turns` turns.

    If both are equal, there is no penalty.
    """
    if num_turns < length_threshold or length_threshold == max_turns:
        return 0.0
    return (length_threshold - num_turns) / (max_turns - length_threshold)


def permute_rewards(groups: Sequence[Group], seed: int) -> list[Group]:
    """Permute the rewards among all trajectories of an iteration, as a negative control of training.

    A trajectory gets reward and outcome of another one, because both decide if a group is dropped. Trajectories that
    failed by faults of sandbox or engine keep their rewards.
    """
    pool = [result for group in groups for result in _results(group) if OUTCOMES[result[0]].in_group]
    random.Random(seed).shuffle(pool)
    dealt = iter(pool)
    return [
        _with_results(group, [next(dealt) if OUTCOMES[result[0]].in_group else result for result in _results(group)])
        for group in groups
    ]


def _results(group: Group) -> list[Result]:
    return [(trajectory.outcome, reward) for trajectory, reward in zip(group.trajectories, group.rewards, strict=True)]


def _with_results(group: Group, results: list[Result]) -> Group:
    members = zip(group.trajectories, results, strict=True)
    trajectories = [trajectory.model_copy(update={"outcome": outcome}) for trajectory, (outcome, _) in members]
    return group.model_copy(update={"trajectories": trajectories, "rewards": [reward for _, reward in results]})
