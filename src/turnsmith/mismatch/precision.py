"""Fault of an engine that computes a float32 policy in bfloat16, or the reverse.

Two programs round differently, since each kernel adds in its own order. So only the size of rounding errors is compared.
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
    """Return a copy of the model in bfloat16. As in servers, its logits are rounded too."""
    return copy.deepcopy(model).to(torch.bfloat16)  # type: ignore[arg-type]


def rescore_products(model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-probs with matrix products and attention in bfloat16, as with `model.dtype = "bfloat16"`."""
    return rescore_packed(model, trajectory, torch.bfloat16)


PRODUCTS = Hypothesis("dtype", "rounding as of layers with products in bfloat16", rescore_products, is_noise=True)
THROUGHOUT = Hypothesis(
    "dtype", "rounding as of a model in bfloat16 throughout", forward.rescore, is_noise=True, prepare=cast
)
