"""An engine that missed an update: all is computed by weights of before."""

from functools import partial

import numpy as np
from transformers import PreTrainedModel

from turnsmith.mismatch import forward
from turnsmith.mismatch.base import Hypothesis
from turnsmith.types import Trajectory


def rescore_by(earlier: PreTrainedModel, model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """By the weights of before, whatever the model at hand."""
    return forward.rescore(earlier, trajectory)


def of_earlier(name: str, earlier: PreTrainedModel) -> Hypothesis:
    """That the engine stood at these weights."""
    return Hypothesis("weights", f"stale weights, those of {name}", partial(rescore_by, earlier))
