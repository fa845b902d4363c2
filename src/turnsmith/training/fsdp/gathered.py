"""Context parallelism by gathering the keys and values of all ranks, as Llama 3 does (arXiv 2407.21783, section 3.3.2)."""

import torch
from torch import Tensor

from turnsmith.training.fsdp.exchange import gather_blocks
from turnsmith.training.fsdp.mesh import Mesh
from turnsmith.training.shared_prefixes import SharedLayout


def pair_ends(num_tokens: int, num_ranks: int) -> Tensor:
    """Return the positions of each rank's tokens, `[ranks, tokens per rank]`: one piece of each half of the row.

    Later tokens attend to more keys, so these pairs have about equal work. Example for 8 tokens and 2 ranks:
    `[[0, 1, 6, 7], [2, 3, 4, 5]]`.
    """
    pieces = torch.arange(num_tokens).view(2 * num_ranks, -1)
    return torch.cat([pieces[:num_ranks], pieces[num_ranks:].flip(0)], dim=1)


class GatheredLayout:
    """Layout of one rank's tokens, which are two pieces of a row: their queries attend to keys of the whole row."""

    def __init__(self, whole: SharedLayout, position_ids: Tensor, mesh: Mesh) -> None:
        self.position_ids = position_ids
        self._whole = whole
        self._group = mesh.cp_group
        size = len(position_ids) // 2
        self._starts = mesh.cp_rank * size, (2 * mesh.layout.cp - 1 - mesh.cp_rank) * size

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute attention of this rank's tokens: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""
        key, value = self._gather(key.to(value.dtype), value)
        pieces = zip(self._starts, query.to(value.dtype).chunk(2, dim=2), strict=True)
        return torch.cat([self._whole.attend_from(start, each, key, value, scaling) for start, each in pieces], dim=1)

    def _gather(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and values of the whole row in order, each `[1, heads, tokens, head_dim]`."""
        block = torch.stack([key[0], value[0]]).permute(2, 0, 1, 3)
        early, late = gather_blocks(block, self._group).view(-1, 2, len(block) // 2, *block.shape[1:]).unbind(1)
        key, value = torch.cat([early, late.flip(0)]).flatten(0, 1).permute(1, 2, 0, 3)[:, None]
        return key, value
