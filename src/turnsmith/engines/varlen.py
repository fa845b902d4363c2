"""The same as `layouts.BlockLayout` by one kernel for sequences of different lengths: CUDA, half precision.

The keys that a step sees are gathered from their blocks end to end, so they are read and written once more than attention
itself reads them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from turnsmith.engines.cache import BlockStore, Span, place_new, place_seen, position


class VarlenLayout:
    """Each packed token sees the keys of its own sequence up to itself; wanted is the last token of each span."""

    def __init__(self, store: BlockStore, spans: list[Span], kernel: Callable[..., Any] = varlen_attn) -> None:
        """`spans` lie in the order of the packed tokens; `kernel` aligns the causal mask to the ends of queries and keys."""
        self._store, self._kernel = store, kernel
        self._new, self._seen = place_new(spans, store.device), place_seen(spans, store.device)
        self.position_ids = position(spans, store.device)
        self._queries = Ends([span.length for span in spans], store.device)
        self._keys = Ends([span.end for span in spans], store.device)
        self._lasts = Ends([1] * len(spans), store.device)
        self.selected = self._queries.ends[1:].long() - 1

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Keep the new keys and values, then attend."""
        return self._attend(self._queries, layer, query, key, value, scaling)

    def attend_selected(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Keep all new keys and values, then attend with the last token of each span."""
        return self._attend(self._lasts, layer, query, key, value, scaling)

    def _attend(
        self, queries: "Ends", layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None
    ) -> Tensor:
        stores = self._store.write(layer, self._new, key[0], value[0])
        keys, values = (self._gather(store) for store in stores)
        query = query[0].transpose(0, 1).to(values.dtype).contiguous()
        lengths = queries.ends, self._keys.ends, queries.longest, self._keys.longest
        return self._kernel(query, keys, values, *lengths, scale=scaling, window_size=(-1, 0), enable_gqa=True)[None]

    def _gather(self, store: Tensor) -> Tensor:
        """All keys or values that the step sees, `[tokens, heads, head_dim]`."""
        return store.flatten(0, 2)[self._seen.of(store.shape[1]).T]


class Ends:
    """Where sequences that lie end to end begin and end."""

    def __init__(self, lengths: list[int], device: torch.device) -> None:
        self.ends = torch.tensor([0, *lengths], device=device).cumsum(0).int()
        self.longest = max(lengths)
