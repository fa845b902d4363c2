"""From a verdict to R_final (paper §6.2)."""

import random
from collections.abc import Sequence

from turnsmith.types import OUTCOMES, Group


def shape_reward(resolved: bool, num_turns: int, *, length_threshold: int, max_turns: int) -> float:
    """R_final = R + R_length: 1 for a resolved task, less what long episodes cost, resolved or not.

    With L_thr = 10 and T_max = 40: resolved at turn 9 or 10 → 1, at 25 → 0.5, at 40 → 0; unresolved at 40 → −1.
    """
    return float(resolved) + length_penalty(num_turns, length_threshold=length_threshold, max_turns=max_turns)


def length_penalty(num_turns: int, *, length_threshold: int, max_turns: int) -> float:
    """R_length = 0 below L_thr turns, else (L_thr − |τ|) / (T_max − L_thr): from 0 down to −1."""
    if num_turns < length_threshold:
        return 0.0
    return (length_threshold - num_turns) / (max_turns - length_threshold)


def permute_rewards(groups: Sequence[Group], seed: int) -> list[Group]:
    """Negative control: the same rewards, dealt anew among all trajectories of an iteration.

    What the infrastructure broke keeps its reward, which counts nowhere.
    """
    pool = [reward for group in groups for reward, counts in _marked(group) if counts]
    random.Random(seed).shuffle(pool)
    dealt = iter(pool)
    return [
        _with_rewards(group, [next(dealt) if counts else reward for reward, counts in _marked(group)])
        for group in groups
    ]


def _marked(group: Group) -> list[tuple[float, bool]]:
    """Each reward, and whether it counts in the group's mean."""
    outcomes = [trajectory.outcome for trajectory in group.trajectories]
    return [(reward, OUTCOMES[outcome].in_group) for reward, outcome in zip(group.rewards, outcomes, strict=True)]


def _with_rewards(group: Group, rewards: list[float]) -> Group:
    return group.model_copy(update={"rewards": rewards})
