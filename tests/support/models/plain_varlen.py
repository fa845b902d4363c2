"""PyTorch's variable-length attention kernel for CUDA, in plain torch for CPUs, with the checks of the kernel."""

import torch
from torch.nn.functional import scaled_dot_product_attention


def plain_varlen(
    query,
    key,
    value,
    ends_q,
    ends_k,
    longest_q,
    longest_k,
    *,
    scale,
    window_size,
    seqused_k=None,
    block_table=None,
    **_,
):
    """Compute causal attention per sequence: `[tokens, heads, head_dim]` in and out; keys may be in blocks."""
    assert window_size == (-1, 0) or (window_size == (-1, -1) and longest_q == 1)
    assert longest_q == ends_q.diff().max() and longest_k == ends_k.diff().max()
    assert {ends.dtype for ends in (ends_q, ends_k)} == {torch.int32}
    assert {tensor.stride(-1) for tensor in (query, key, value)} == {1} and query.dtype == key.dtype == value.dtype
    if block_table is not None:
        assert block_table.dtype == seqused_k.dtype == torch.int32 and torch.equal(seqused_k, ends_k.diff())
        key, value = (gather_blocks(blocks, block_table, seqused_k) for blocks in (key, value))
    parts = [
        attend_plainly(*(tensor[a:b].transpose(0, 1) for tensor, a, b in ((query, *q), (key, *k), (value, *k))), scale)
        for q, k in zip(ends_q.unfold(0, 2, 1).tolist(), ends_k.unfold(0, 2, 1).tolist(), strict=True)
    ]
    return torch.cat([part.transpose(0, 1) for part in parts])


def gather_blocks(blocks, block_table, lengths):
    """Lay the keys of all sequences end to end."""
    rows = zip(block_table.tolist(), lengths.tolist(), strict=True)
    return torch.cat([blocks[row].flatten(0, 1)[:length] for row, length in rows])


def attend_plainly(query, keys, values, scaling=None):
    """Attend with the last tokens of a sequence over all of it, with a mask."""
    length, new = keys.shape[1], query.shape[1]
    mask = torch.ones(new, length, dtype=torch.bool).tril(length - new)
    return scaled_dot_product_attention(
        query[None], keys[None], values[None], attn_mask=mask, scale=scaling, enable_gqa=True
    )[0]
