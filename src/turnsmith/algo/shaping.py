"""From a verdict to R_final (paper §6.2)."""

import random
from collections.abc import Sequence

from turnsmith.types import OUTCOMES, Group, Outcome

Mark = tuple[Outcome, float]
"""How a trajectory was judged, and its R_final."""


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
    """Negative control: the same rewards, each with its outcome, dealt anew among all trajectories of an iteration.

    The outcome goes along because groups are also chosen by it. What the infrastructure broke keeps what it has, which
    counts nowhere.
    """
    pool = [mark for group in groups for mark in _marks(group) if OUTCOMES[mark[0]].in_group]
    random.Random(seed).shuffle(pool)
    dealt = iter(pool)
    return [
        _with_marks(group, [next(dealt) if OUTCOMES[mark[0]].in_group else mark for mark in _marks(group)])
        for group in groups
    ]


def _marks(group: Group) -> list[Mark]:
    return [(trajectory.outcome, reward) for trajectory, reward in zip(group.trajectories, group.rewards, strict=True)]


def _with_marks(group: Group, marks: list[Mark]) -> Group:
    members = zip(group.trajectories, marks, strict=True)
    trajectories = [trajectory.model_copy(update={"outcome": outcome}) for trajectory, (outcome, _) in members]
    return group.model_copy(update={"trajectories": trajectories, "rewards": [reward for _, reward in marks]})
