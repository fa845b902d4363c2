"""Packed attention: samples lie end to end in one row, each attends to itself alone, and nothing is padded."""

from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


class PackedLayout:
    """Samples of given lengths, end to end in one row."""

    def __init__(self, lengths: list[int], selected: Tensor) -> None:
        """`selected` holds the ascending indices, in the row, of the tokens whose hidden states are wanted."""
        self.selected = selected
        self.position_ids = torch.cat([torch.arange(length) for length in lengths]).to(selected.device)
        self._lengths = lengths

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Causal attention per sample: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""
        segments = zip(*(tensor.split(self._lengths, dim=2) for tensor in (query, key, value)), strict=True)
        outputs = [
            scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=True)
            for q, k, v in segments
        ]
        return torch.cat([output.transpose(1, 2) for output in outputs], dim=1)

    def attend_selected(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """The same for the queries of the selected tokens only."""
        counts = [len(mask) for mask in self._masks]
        keys, values = key.split(self._lengths, dim=2), value.split(self._lengths, dim=2)
        segments = zip(query.split(counts, dim=2), keys, values, self._masks, strict=True)
        outputs = [
            scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), scale=scaling, enable_gqa=True)
            for q, k, v, mask in segments
            if len(mask)
        ]
        return torch.cat([output.transpose(1, 2) for output in outputs], dim=1)

    @cached_property
    def _masks(self) -> list[Tensor]:
        """Per sample an additive mask `[selected, tokens]`: a token sees those up to itself."""
        ends = torch.tensor(self._lengths, device=self.selected.device).cumsum(0)
        counts = torch.searchsorted(self.selected, ends).diff(prepend=self.selected.new_zeros(1))
        positions = self.position_ids[self.selected].split(counts.tolist())
        return [_mask(seen, length) for seen, length in zip(positions, self._lengths, strict=True)]


def _mask(positions: Tensor, length: int) -> Tensor:
    hidden = torch.arange(length, device=positions.device) > positions[:, None]
    return torch.zeros(hidden.shape, device=positions.device).masked_fill_(hidden, float("-inf"))
