"""Attention of the trainer over packed samples: they lie end to end in one row, and each attends only to itself."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from turnsmith.engines.torch.attention import Boundaries, attend_packed, has_kernel


class PackedLayout:
    """Attention layout of samples that lie end to end in one row, given by their lengths."""

    def __init__(self, lengths: list[int], device: torch.device) -> None:
        self.position_ids = torch.cat([torch.arange(length) for length in lengths]).to(device)
        self._lengths = lengths
        self._boundaries = Boundaries(lengths, device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute causal attention within each sample: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""
        # Under autocast, rotary embedding returns queries and keys in fp32, while values keep the autocast dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)
        if has_kernel(value.device, value.dtype):
            query, key, value = (tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value))
            return attend_packed(query, key, value, self._boundaries, self._boundaries, scaling)[None]
        segments = zip(*(tensor.split(self._lengths, dim=2) for tensor in (query, key, value)), strict=True)
        outputs = [
            scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True)
            for q, k, v in segments
        ]
        return torch.cat([output.transpose(1, 2) for output in outputs], dim=1)
