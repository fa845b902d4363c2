"""The one attention that our models run with: the layout of the batch answers.

A model loaded with `attn_implementation=NAME` builds no mask of its own and hands `layout=` through its forward to every
attention layer. The trainer's layout is packed samples, the engine's is blocks of kept keys and values.
"""

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "turnsmith"


class Layout(Protocol):
    """Tokens that lie end to end in one row: where each belongs, and what it sees."""

    position_ids: Tensor
    """Position of each token in its own sequence, `[tokens]`."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Causal attention of one layer: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""


class EngineLayout(Layout, Protocol):
    """A layout that wants the final hidden states of some tokens only, and attends with the queries of these or of all."""

    selected: Tensor
    """Their indices, `[selected]`."""


class Boundaries:
    """Where sequences that lie end to end begin and end, as kernels for sequences of different lengths ask for it."""

    def __init__(self, lengths: list[int], device: torch.device) -> None:
        self.offsets = torch.tensor([0, *lengths], device=device).cumsum(0).int()
        self.longest = max(lengths)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layout: Layout,
    scaling: float | None = None,
    **unused: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in each layer; returns the output of the layout, and no attention weights."""
    return layout.attend(module.layer_idx, query, key, value, scaling), None  # type: ignore[arg-type]


AttentionInterface.register(NAME, attend)
