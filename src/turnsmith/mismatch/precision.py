"""Layers that compute in bfloat16 where the policy is float32, or the other way round.

Rounding is not reproduced by another program: one kernel that adds in another order changes all that follows. Its size is.
"""

import copy

import numpy as np
import torch
from transformers import PreTrainedModel

from turnsmith.mismatch import forward
from turnsmith.mismatch.base import Hypothesis
from turnsmith.mismatch.kernels import rescore_packed
from turnsmith.types import Trajectory


def cast(model: PreTrainedModel) -> PreTrainedModel:
    """Weights, and all that passes between layers, in bfloat16, as servers compute; the head's logits are rounded, too."""
    return copy.deepcopy(model).to(torch.bfloat16)  # type: ignore[arg-type]


def rescore_products(model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Products of matrices and attention in bfloat16, as `model.dtype` has them in this house."""
    return rescore_packed(model, trajectory, torch.bfloat16)


PRODUCTS = Hypothesis("dtype", "rounding as of layers with products in bfloat16", rescore_products, is_noise=True)
THROUGHOUT = Hypothesis(
    "dtype", "rounding as of a model in bfloat16 throughout", forward.rescore, is_noise=True, prepare=cast
)
