"""What numbers the layers compute in: weights stay in float32, products of matrices may be made in less."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def computing_in(dtype: torch.dtype, device: torch.device) -> AbstractContextManager[object]:
    """Matrix products and attention in `dtype` while sums between layers, norms and softmax stay in float32."""
    if dtype == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype)


def without_gradients(dtype: torch.dtype) -> AbstractContextManager[object]:
    """Inference mode is the cheaper of the two, but keeps no casts."""
    return torch.inference_mode() if dtype == torch.float32 else torch.no_grad()


@contextmanager
def keeping_casts() -> Iterator[None]:
    """Cast each weight once for all that is computed within, not once for each pass; no weight may change within."""
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
