"""Attention in a step of the engine. Tokens of several sequences are packed; each attends to its own sequence's cached keys."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from turnsmith.engines.torch.attention import (
    HAS_PAGES,
    Boundaries,
    attend_in_blocks,
    attend_packed,
    expand_heads,
    has_kernel,
)
from turnsmith.engines.torch.blocks import BLOCK_TOKENS, PAGE_TOKENS, BlockStore, Span
from turnsmith.engines.torch.decoding import Decoding
from turnsmith.engines.torch.transfer import send

if TYPE_CHECKING:
    from turnsmith.engines.torch.compiled import CompiledDecoding

MAX_COPIED_TOKENS = 2**18
"""Maximum number of cached tokens that `Copied` copies in one call (1 GiB with 8 heads of 128 in bf16)."""


class Paged:
    """Attention of packed tokens by one kernel call that reads keys in their cache blocks."""

    def __init__(self, spans: list[Span], device: torch.device) -> None:
        self.num_tokens = sum(span.length for span in spans)
        self._queries = Boundaries([span.length for span in spans], device)
        self._keys = Boundaries([span.end for span in spans], device)
        self._table = send([tabulate(spans)], device)[0].int()

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        """Compute the attention of all packed tokens, from queries `[heads, tokens, head_dim]` to `[tokens, heads, head_dim]`."""
        query = query.transpose(0, 1).to(values.dtype).contiguous()
        return attend_in_blocks(query, (keys, values), self._queries, self._keys, self._table, scaling)


class Copied:
    """Attention of packed tokens by one kernel call, with keys copied from their cache blocks, as torch 2.11 needs."""

    def __init__(self, spans: list[Span], device: torch.device) -> None:
        self.num_tokens = sum(span.length for span in spans)
        self._queries = Boundaries([span.length for span in spans], device)
        self._keys = Boundaries([span.end for span in spans], device)
        table, order, ends = send([tabulate(spans), np.arange(len(spans)), np.array([s.end for s in spans])], device)
        # The device expands blocks to token indices, which are many. A given `output_size` spares a wait for the device.
        num_keys = sum(span.end for span in spans)
        sequences = order.repeat_interleave(ends, output_size=num_keys)
        positions = torch.arange(num_keys, device=device) - (ends.cumsum(0) - ends)[sequences]
        size = spans[0].block_tokens
        self._blocks, self._offsets = table[sequences, positions // size], positions % size

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        """Compute the attention of all packed tokens, from queries `[heads, tokens, head_dim]` to `[tokens, heads, head_dim]`."""
        query = query.transpose(0, 1).to(values.dtype).contiguous()
        keys, values = (store[self._blocks, :, self._offsets] for store in (keys, values))
        return attend_packed(query, keys, values, self._queries, self._keys, scaling)


def tabulate(spans: list[Span]) -> np.ndarray:
    """Return the cache blocks that each span's last token attends to, `[spans, most blocks]`, filled up with block 0."""
    table = np.zeros((len(spans), max(len(span.seen) for span in spans)), np.int64)
    for row, span in zip(table, spans, strict=True):
        row[: len(span.seen)] = span.seen
    return table


class Prefill:
    """Attention of several new tokens of one sequence to the sequence's cached keys and to earlier new tokens."""

    def __init__(self, span: Span, device: torch.device) -> None:
        self.num_tokens = span.length
        self._end = span.end
        self._blocks = send([np.array(span.seen)], device)[0]
        hidden = torch.full((span.length, span.end), float("-inf"), device=device).triu(span.start + 1)
        self._mask = hidden if span.start else None

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        """Compute the attention of the new tokens, from queries `[heads, tokens, head_dim]` to `[tokens, heads, head_dim]`."""
        stores = (store[self._blocks].transpose(0, 1).flatten(1, 2) for store in (keys, values))
        keys, values = expand_heads(query, *(store[:, : self._end] for store in stores))
        output = scaled_dot_product_attention(
            query[None].to(values.dtype),
            keys[None],
            values[None],
            attn_mask=None if self._mask is None else self._mask.to(values.dtype),
            is_causal=self._mask is None,
            scale=scaling,
            enable_gqa=len(query) != len(keys),
        )
        return output[0].transpose(0, 1)


Part: TypeAlias = "CompiledDecoding | Decoding | Paged | Copied | Prefill"
"""Attention of some adjacent packed tokens, computed in one call per layer."""

MakeParts = Callable[[list[Span], torch.device], list[Part]]
"""Function that splits the spans of a step into parts, each computed by one attention call, in order."""


def choose_parts(device: torch.device, dtype: torch.dtype) -> MakeParts:
    """Choose the fastest attention implementation for a device and the dtype of the keys."""
    if has_kernel(device, dtype):
        return make_paged_parts if HAS_PAGES else make_copied_parts
    return partial(make_parts, choose_decoding(device, dtype))


def choose_decoding(device: torch.device, dtype: torch.dtype) -> "type[CompiledDecoding | Decoding]":
    """Choose the attention implementation of decode steps without a kernel."""
    if device.type != "cpu":
        return Decoding
    # Its compiler, numba, may be missing on a machine with a GPU.
    from turnsmith.engines.torch.compiled import CompiledDecoding, can_compile

    return CompiledDecoding if can_compile(device, dtype) else Decoding


def choose_block_tokens(device: torch.device, dtype: torch.dtype) -> int:
    """Return the size of cache blocks, in tokens, that the attention implementation of `choose_parts` reads."""
    return PAGE_TOKENS if has_kernel(device, dtype) and HAS_PAGES else BLOCK_TOKENS


def make_paged_parts(spans: list[Span], device: torch.device) -> list[Part]:
    """Make one attention part for all decode steps, so that they do not depend on prefills, and one for all longer spans."""
    return [Paged(group, device) for group in split_by_length(spans) if group]


def make_copied_parts(spans: list[Span], device: torch.device) -> list[Part]:
    """Make attention parts whose copies of keys stay below `MAX_COPIED_TOKENS`, for decode steps and longer spans separately."""
    groups = [part for group in split_by_length(spans) for part in bound_copies(group)]
    return [Copied(group, device) for group in groups]


def split_by_length(spans: list[Span]) -> tuple[list[Span], list[Span]]:
    """Split spans, those of one token first, into decode steps and prefills."""
    num_singles = sum(span.length == 1 for span in spans)
    return spans[:num_singles], spans[num_singles:]


def bound_copies(spans: list[Span]) -> list[list[Span]]:
    """Split spans into groups of adjacent spans that attend to at most `MAX_COPIED_TOKENS` tokens; a longer span is alone."""
    groups: list[list[Span]] = []
    room = 0
    for span in spans:
        if not groups or span.end > room:
            groups.append([])
            room = MAX_COPIED_TOKENS
        groups[-1].append(span)
        room -= span.end
    return groups


def make_parts(decoding: "type[CompiledDecoding | Decoding]", spans: list[Span], device: torch.device) -> list[Part]:
    """Make one attention part for all decode steps together, and one for each longer span."""
    singles, longer = split_by_length(spans)
    together: list[Part] = [decoding(singles, device)] if singles else []
    return [*together, *(Prefill(span, device) for span in longer)]


class BlockLayout:
    """Attention layout of one step: each packed token attends to its own sequence's cached tokens, itself included."""

    position_ids: Tensor
    selected: Tensor
    """Index of each span's last token among the packed tokens, `[spans]`; the model's last layer computes only these tokens."""

    def __init__(self, store: BlockStore, spans: list[Span], make: MakeParts) -> None:
        """Prepare the layout of a step. `spans` must be in the order of the packed tokens, with spans of one token first."""
        self._store, size = store, store.block_tokens
        positions = [np.arange(span.start, span.end) for span in spans]
        blocks = [np.array(span.blocks)[each // size] for span, each in zip(spans, positions, strict=True)]
        lasts = np.cumsum([span.length for span in spans]) - 1
        rows = [np.concatenate(positions), np.concatenate(blocks), lasts]
        self.position_ids, in_blocks, self.selected = send(rows, store.device)
        self._places = in_blocks, self.position_ids % size
        last_spans = [span.last for span in spans]
        self._parts = make(spans, store.device)
        self._last_parts = self._parts if last_spans == spans else make(last_spans, store.device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Store a layer's new keys and values, then compute attention of all tokens, or in the last layer of selected tokens."""
        stores = self._store.write(layer, self._places, key[0], value[0])
        parts = self._parts if query.shape[2] == key.shape[2] else self._last_parts
        queries = query[0].split([part.num_tokens for part in parts], dim=1)
        return torch.cat([part.attend(q, *stores, scaling) for part, q in zip(parts, queries, strict=True)])[None]
