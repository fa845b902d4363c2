"""The same as `layouts.BlockLayout` by one kernel for sequences of different lengths: CUDA, half precision.

The keys that a step sees are gathered from their blocks end to end, so they are read and written once more than attention
itself reads them.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from turnsmith.engines.attention import Boundaries
from turnsmith.engines.cache import BlockStore, Span, place_new, place_seen, position


class VarlenLayout:
    """Each packed token sees the keys of its own sequence up to itself; wanted is the last token of each span."""

    def __init__(self, store: BlockStore, spans: list[Span], kernel: Callable[..., Any] = varlen_attn) -> None:
        """`spans` lie in the order of the packed tokens; `kernel` aligns the causal mask to the ends of queries and keys."""
        self._store, self._kernel = store, kernel
        self._new, self._seen = place_new(spans, store.device), place_seen(spans, store.device)
        self.position_ids = position(spans, store.device)
        self._queries = Boundaries([span.length for span in spans], store.device)
        self._keys = Boundaries([span.end for span in spans], store.device)
        self._lasts = Boundaries([1] * len(spans), store.device)
        self.selected = self._queries.offsets[1:].long() - 1

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Keep the new keys and values, then attend with all tokens or the last of each span."""
        stores = self._store.write(layer, self._new, key[0], value[0])
        keys, values = (self._gather(store) for store in stores)
        queries = self._queries if query.shape[2] == key.shape[2] else self._lasts
        query = query[0].transpose(0, 1).to(values.dtype).contiguous()
        lengths = queries.offsets, self._keys.offsets, queries.longest, self._keys.longest
        return self._kernel(query, keys, values, *lengths, scale=scaling, window_size=(-1, 0), enable_gqa=True)[None]

    def _gather(self, store: Tensor) -> Tensor:
        """All keys or values that the step sees, `[tokens, heads, head_dim]`."""
        return store.flatten(0, 2)[self._seen.of(store.shape[1]).T]
