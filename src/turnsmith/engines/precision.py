"""What numbers the layers compute in: weights stay in float32, products of matrices may be made in less."""

from contextlib import AbstractContextManager, nullcontext

import torch


def computing_in(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """Matrix products and attention in `dtype` while sums between layers, norms and softmax stay in float32."""
    if dtype == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype)
