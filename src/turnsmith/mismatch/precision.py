"""Computation in bfloat16 for a float32 policy, or the reverse.

Another program does not reproduce rounding, since each kernel adds in its own order. Only its size is comparable.
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
    """Cast a copy of the model to bfloat16, as servers compute; logits are rounded too."""
    return copy.deepcopy(model).to(torch.bfloat16)  # type: ignore[arg-type]


def rescore_products(model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Rescore with matrix products and attention in bfloat16, as `model.dtype = "bfloat16"` computes."""
    return rescore_packed(model, trajectory, torch.bfloat16)


PRODUCTS = Hypothesis("dtype", "rounding as of layers with products in bfloat16", rescore_products, is_noise=True)
THROUGHOUT = Hypothesis(
    "dtype", "rounding as of a model in bfloat16 throughout", forward.rescore, is_noise=True, prepare=cast
)
