"""Comparison of the package's attention on a device with plain attention in float32: packed training, copied and cached keys."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from turnsmith.engines.torch.attention import HAS_PAGES
from turnsmith.engines.torch.blocks import BlockStore, Span, blocks_for
from turnsmith.engines.torch.paged_attention import (
    BlockLayout,
    MakeParts,
    choose_block_tokens,
    choose_parts,
    make_copied_parts,
    make_paged_parts,
)
from turnsmith.training.model import PackedLayout

HEADS = ((14, 2, 64), (32, 8, 128))
"""Heads of queries and of keys, and head_dim, of Qwen2.5-0.5B and Qwen3-4B."""
LENGTHS = [1, 7, 300, 1_500]
TOLERANCE = {torch.bfloat16: 2e-2, torch.float32: 1e-4}
"""Maximum difference, relative to the largest number of the plain result."""


def check_kernels(device: torch.device) -> bool:
    """Print the largest relative difference of each attention path. Return True if all are within `TOLERANCE`."""
    is_right = True
    for dtype in (torch.bfloat16, torch.float32):
        for heads, key_heads, head_dim in HEADS:
            query, key, value = (
                torch.randn(1, count, sum(LENGTHS), head_dim, device=device, dtype=dtype)
                for count in (heads, key_heads, key_heads)
            )
            for name, difference in compare(query, key, value):
                is_right &= difference <= TOLERANCE[dtype]
                print(f"  {name:32}{heads:>3}/{key_heads} × {head_dim:<4} {str(dtype)[6:]:10}{difference:>10.2e}")
    print("  all within tolerance" if is_right else "  FAULT: above tolerance")
    return is_right


def compare(query: Tensor, key: Tensor, value: Tensor) -> Iterator[tuple[str, float]]:
    """Yield each path's name and largest relative difference from plain attention."""
    expected = attend_plainly(*(tensor.float() for tensor in (query, key, value)))
    layout = PackedLayout(LENGTHS, query.device)
    yield "packed training, forward", difference(layout.attend(0, query, key, value, None)[0], expected)
    yield from compare_gradients(layout, query, key, value)
    for name, make in list_ways(query).items():
        yield name, difference(attend_from_cache(make, query, key, value), expected)


def compare_gradients(layout: PackedLayout, *inputs: Tensor) -> Iterator[tuple[str, float]]:
    """Yield the difference of the gradients of queries, keys and values."""
    own = [tensor.detach().requires_grad_() for tensor in inputs]
    plain = [tensor.detach().float().requires_grad_() for tensor in inputs]
    weight = torch.randn_like(attend_plainly(*inputs).float())
    (layout.attend(0, own[0], own[1], own[2], None)[0].float() * weight).sum().backward()
    (attend_plainly(*plain) * weight).sum().backward()
    for name, one, other in zip(("queries", "keys", "values"), own, plain, strict=True):
        assert one.grad is not None and other.grad is not None
        yield f"packed training, {name}", difference(one.grad, other.grad)


def list_ways(query: Tensor) -> dict[str, MakeParts]:
    """Return the attention over cached keys that the engine chooses here, and the kernel's other way."""
    ways = {"cached keys, as chosen": choose_parts(query.device, query.dtype)}
    if query.device.type == "cuda" and query.dtype == torch.bfloat16:
        ways |= {"cached keys, copied": make_copied_parts} | (
            {"cached keys, in blocks": make_paged_parts} if HAS_PAGES else {}
        )
    return ways


def attend_from_cache(make: MakeParts, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Compute the same attention from a cache: first all tokens but each last one, then the last ones, as decode steps."""
    size = choose_block_tokens(query.device, query.dtype)
    ends = torch.tensor(LENGTHS).cumsum(0).tolist()
    tables = iter(range(sum(blocks_for(length, size) for length in LENGTHS)))
    blocks = [[next(tables) for _ in range(blocks_for(length, size))] for length in LENGTHS]
    store = BlockStore(sum(map(len, blocks)), query.device, size)
    output = torch.empty_like(query[0].transpose(0, 1))
    earlier = [
        (Span(b, 0, n - 1, size), range(end - n, end - 1)) for b, n, end in zip(blocks, LENGTHS, ends, strict=True)
    ]
    latest = [(Span(b, n - 1, 1, size), range(end - 1, end)) for b, n, end in zip(blocks, LENGTHS, ends, strict=True)]
    for step in ([each for each in earlier if each[0].length], latest):
        places = torch.tensor([place for _, places in step for place in places], device=query.device)
        layout = BlockLayout(store, [span for span, _ in step], make)
        parts = [tensor[:, :, places] for tensor in (query, key, value)]
        output[places] = layout.attend(0, parts[0], parts[1], parts[2], None)[0].to(output.dtype)
    return output


def attend_plainly(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Compute causal attention of each sequence by itself, with expanded heads: `[tokens, heads, head_dim]`."""
    key, value = (tensor.repeat_interleave(query.shape[1] // key.shape[1], 1) for tensor in (key, value))
    parts = zip(*(tensor.split(LENGTHS, dim=2) for tensor in (query, key, value)), strict=True)
    return torch.cat([scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1) for q, k, v in parts])


def difference(one: Tensor, other: Tensor) -> float:
    """Return the largest difference relative to the largest number of `other`; infinite for numbers that are not finite."""
    worst = ((one.float() - other.float()).abs().max() / other.float().abs().max()).item()
    return worst if one.isfinite().all() else float("inf")
