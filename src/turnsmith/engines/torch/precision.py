"""Number formats of computation: weights stay in float32, matrix products may use a smaller format."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def computing_in(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """Compute matrix products and attention in `dtype`; residual sums, norms and softmax stay in float32."""
    if dtype == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype)


def without_gradients(dtype: torch.dtype) -> AbstractContextManager[object]:
    """Disable gradients: inference mode for float32, else `no_grad`, since autocast caches no casts in inference mode."""
    return torch.inference_mode() if dtype == torch.float32 else torch.no_grad()


@contextmanager
def keeping_casts() -> Iterator[None]:
    """Cast each weight once per `with` block, not once per forward pass. The weights must not change in the block."""
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
