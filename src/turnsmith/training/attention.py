"""Packed attention: samples lie end to end in one row, each attends to itself alone, and no mask is built."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


@dataclass(frozen=True)
class PackedLayout:
    """Samples of the given lengths, end to end in one row."""

    lengths: list[int]

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Causal attention per sample; query `[1, heads, tokens, head_dim]`, key and value with their own heads."""
        segments = zip(*(tensor.split(self.lengths, dim=2) for tensor in (query, key, value)), strict=True)
        outputs = [
            scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True)
            for q, k, v in segments
        ]
        return torch.cat(outputs, dim=2)

    def position_ids(self) -> Tensor:
        """Positions counted anew in each sample, shape `[1, tokens]`."""
        return torch.cat([torch.arange(length) for length in self.lengths]).unsqueeze(0)
