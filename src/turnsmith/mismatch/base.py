"""Hypotheses: possible faults of an engine, and functions for the log-probs that each fault would produce."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedModel

from turnsmith.types import Trajectory

Rescore = Callable[[PreTrainedModel, Trajectory], np.ndarray]
"""Function that computes, with a float32 transformers model, the log-probs of a trajectory's sampled tokens; float32."""


@dataclass(frozen=True)
class Hypothesis:
    """One possible fault of an engine."""

    family: str
    """Family of the fault, e.g. `weights`."""
    name: str
    """Name of the fault, phrased to complete `the gap is explained by …`."""
    rescore: Rescore
    is_noise: bool = False
    """True if the fault predicts only the size of log-prob errors, not their sign, as for rounding."""
    prepare: Callable[[PreTrainedModel], PreTrainedModel] = lambda model: model
    """Function that prepares the model for `rescore`, called once for all rollouts."""


def reported(trajectory: Trajectory) -> np.ndarray:
    """Return the log-probs that the engine reported for the sampled tokens, in order."""
    return trajectory.logprobs[trajectory.sampled]
