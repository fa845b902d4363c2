"""Hypotheses: possible engine faults and the log-probs that each would produce."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedModel

from turnsmith.types import Trajectory

Rescore = Callable[[PreTrainedModel, Trajectory], np.ndarray]
"""Function from a float32 transformers model and a trajectory to the log-probs of its sampled tokens, float32."""


@dataclass(frozen=True)
class Hypothesis:
    """One possible fault of an engine."""

    family: str
    """Kind of fault, e.g. `weights`."""
    name: str
    """Name of the fault, phrased to complete `the gap is explained by …`."""
    rescore: Rescore
    is_noise: bool = False
    """True if the fault predicts the size of the error, not its direction."""
    prepare: Callable[[PreTrainedModel], PreTrainedModel] = lambda model: model
    """Function that prepares the model for `rescore`, called once for all rollouts."""


def reported(trajectory: Trajectory) -> np.ndarray:
    """Return the engine's log-probs of the sampled tokens, in order."""
    return trajectory.logprobs[trajectory.sampled]
