"""Fault of an engine with stale weights, after a missed update."""

from functools import partial

import numpy as np
from transformers import PreTrainedModel

from turnsmith.mismatch import forward
from turnsmith.mismatch.base import Hypothesis
from turnsmith.types import Trajectory


def rescore_by(earlier: PreTrainedModel, model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-probs with `earlier` weights instead of the given model."""
    return forward.rescore(earlier, trajectory)


def make_hypothesis(name: str, earlier: PreTrainedModel) -> Hypothesis:
    """Make the hypothesis that the engine sampled with `earlier` weights."""
    return Hypothesis("weights", f"stale weights, those of {name}", partial(rescore_by, earlier))
