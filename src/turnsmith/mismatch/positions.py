"""Fault of an engine with shifted token positions: by a constant from some turn on, or by one more with each turn."""

from collections.abc import Callable
from functools import partial

import numpy as np
from transformers import PreTrainedModel

from turnsmith.mismatch import forward
from turnsmith.mismatch.base import Hypothesis
from turnsmith.types import Trajectory

Shift = Callable[[Trajectory], np.ndarray]
"""Function that returns the position shift of each token, `[tokens]`."""
MAX_TURN = 8
"""Number of first turns that are tried as the start of a shift; a later start is reported as the last of them."""


def rescore_shifted(shift: Shift, model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-probs of an engine that shifts token positions; no position is below 0."""
    positions = (np.arange(len(trajectory.token_ids)) + shift(trajectory)).clip(min=0)
    return forward.score(model, trajectory.token_ids, trajectory.sampled, positions)


def from_turn(turn: int, by: int, trajectory: Trajectory) -> np.ndarray:
    """Return the position shift `by` for each token from the first token of a turn on (counted from 0), else 0."""
    turns = trajectory.turns
    start = turns[turn].start if turn < len(turns) else len(trajectory.token_ids)
    return by * (np.arange(len(trajectory.token_ids)) >= start)


def each_turn(by: int, trajectory: Trajectory) -> np.ndarray:
    """Return a position shift for each token that grows by `by` after each turn."""
    ends = [turn.end for turn in trajectory.turns]
    return by * np.searchsorted(ends, np.arange(len(trajectory.token_ids)), side="right")


def list_hypotheses(num_turns: int) -> list[Hypothesis]:
    """List hypotheses of position shifts by ±1: from each of the first turns on, and growing with each turn."""
    first = {turn: f"from turn {turn + 1} on" for turn in range(min(num_turns, MAX_TURN))} | {
        0: "after the first prompt"
    }
    shifts: dict[str, Callable[[int], Shift]] = {
        name: partial(partial, from_turn, turn) for turn, name in first.items()
    }
    if num_turns > 1:
        shifts["more with each turn"] = partial(partial, each_turn)
    return [
        Hypothesis("positions", f"positions off by {by:+d} {name}", partial(rescore_shifted, make(by)))
        for name, make in shifts.items()
        for by in (1, -1)
    ]
