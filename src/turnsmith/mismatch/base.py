"""What a hypothesis is: the name of a fault, and the log-probs that an engine with it would have reported."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedModel

from turnsmith.types import Trajectory

Rescore = Callable[[PreTrainedModel, Trajectory], np.ndarray]
"""The policy, as transformers loads it in float32, and what was sampled, in; log-probs of the sampled tokens out, float32."""


@dataclass(frozen=True)
class Hypothesis:
    """One fault that an engine may have."""

    family: str
    """What is toggled, such as `weights`."""
    name: str
    """What is wrong, so that it ends the sentence `the gap is explained by …`."""
    rescore: Rescore
    is_noise: bool = False
    """True where two programs with the fault agree in how far they are off, and not in which direction."""
    prepare: Callable[[PreTrainedModel], PreTrainedModel] = lambda model: model
    """Makes what `rescore` is given, once for all rollouts."""


def reported(trajectory: Trajectory) -> np.ndarray:
    """What the engine said of the sampled tokens, in order."""
    return trajectory.logprobs[trajectory.sampled]
