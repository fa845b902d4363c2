"""The one attention that our models run with: the layout of the batch answers.

A model loaded with `attn_implementation=NAME` builds no mask of its own and hands `layout=` through its forward to every
attention layer. The trainer's layout is packed samples, the engine's is slots of kept keys and values.
"""

from typing import Any, Protocol

from torch import Tensor, nn
from transformers import AttentionInterface

NAME = "turnsmith"


class Layout(Protocol):
    """Says which keys each query of a batch sees."""

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Causal attention of one layer: `[rows, heads, tokens, head_dim]` in, the same shape as `query` out."""


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
    """What transformers calls in each layer; returns `[rows, tokens, heads, head_dim]` and no weights."""
    output = layout.attend(module.layer_idx, query, key, value, scaling)  # type: ignore[arg-type]
    return output.transpose(1, 2), None


AttentionInterface.register(NAME, attend)
