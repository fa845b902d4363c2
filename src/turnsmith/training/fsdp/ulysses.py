"""Context parallelism by exchange of tokens for heads (DeepSpeed-Ulysses, arXiv 2309.14509).

Between layers each rank has some tokens of a row and all their heads. For attention each rank gets all tokens and some heads:

    rank 0: tokens 0 1, heads a b          rank 0: tokens 0 1 2 3, head a
    rank 1: tokens 2 3, heads a b    ⇄     rank 1: tokens 0 1 2 3, head b
"""

from math import gcd

import torch
from torch import Tensor

from turnsmith.engines.torch.attention import Layout
from turnsmith.training.fsdp.exchange import exchange_blocks
from turnsmith.training.fsdp.mesh import Mesh


class UlyssesLayout:
    """Layout of one rank's tokens: attention of all tokens, for a part of the heads, by the layout of the whole row.

    If there are fewer heads of keys than ranks, they are repeated before the exchange.
    """

    def __init__(self, whole: Layout, position_ids: Tensor, mesh: Mesh) -> None:
        self.position_ids = position_ids
        self._whole = whole
        self._cp, self._group = mesh.layout.cp, mesh.cp_group

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute attention of this rank's tokens: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""
        copies = self._cp // gcd(self._cp, key.size(1))
        key, value = (each.repeat_interleave(copies, dim=1) for each in (key, value))
        query, key, value = self._take_all_tokens(query.to(value.dtype), key.to(value.dtype), value)
        return self._take_all_heads(self._whole.attend(layer, query, key, value, scaling)[0])

    def _take_all_tokens(self, *vectors: Tensor) -> tuple[Tensor, ...]:
        """Exchange tokens for heads: `[1, heads, own tokens, head_dim]` in, `[1, own heads, tokens, head_dim]` out."""
        sizes = [each.size(1) // self._cp for each in vectors]
        blocks = torch.cat([each[0].unflatten(0, (self._cp, -1)) for each in vectors], dim=1)
        received = exchange_blocks(blocks, self._group).transpose(0, 1).flatten(1, 2)
        return tuple(each[None] for each in received.split(sizes))

    def _take_all_heads(self, output: Tensor) -> Tensor:
        """Exchange heads for tokens: `[tokens, own heads, head_dim]` in, `[1, own tokens, heads, head_dim]` out."""
        received = exchange_blocks(output.unflatten(0, (self._cp, -1)), self._group)
        return received.transpose(0, 1).flatten(1, 2)[None]
