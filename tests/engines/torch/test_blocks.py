"""Block pool, sequence table and attention over blocks, compared with plain references."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from support.models.plain_varlen import attend_plainly, plain_varlen
from support.models.small_models import make_model
from turnsmith.engines.torch import attention
from turnsmith.engines.torch.blocks import (
    BLOCK_TOKENS,
    BlockPool,
    BlockStore,
    Span,
    blocks_for,
    kv_bytes_per_token,
    size_cache,
)
from turnsmith.engines.torch.compiled import CompiledDecoding
from turnsmith.engines.torch.decoding import Decoding
from turnsmith.engines.torch.paged_attention import (
    BlockLayout,
    choose_parts,
    make_copied_parts,
    make_paged_parts,
    make_parts,
)
from turnsmith.engines.torch.sequences import SequenceTable
from turnsmith.errors import UsageError

torch.set_num_threads(1)
HEADS, KEY_HEADS, HEAD_DIM = 4, 2, 8
CPU = torch.device("cpu")
WAYS = [partial(make_parts, CompiledDecoding), partial(make_parts, Decoding), make_copied_parts, make_paged_parts]


def fill_store(histories, num_blocks, order):
    """Make a store with random keys and values in blocks of a given order; return the plain tensors too."""
    generator = torch.Generator().manual_seed(0)
    store, plain, blocks = BlockStore(num_blocks, CPU), [], iter(order)
    for length in histories:
        table = [next(blocks) for _ in range(blocks_for(length))]
        plain.append((table, *torch.randn(2, KEY_HEADS, length, HEAD_DIM, generator=generator)))
    return store, plain


lengths = st.lists(
    st.tuples(st.integers(0, 3 * BLOCK_TOKENS), st.sampled_from([1, 1, 1, 2, 70])), min_size=1, max_size=6
)


@given(lengths, st.integers(0, 1_000), st.booleans(), st.sampled_from(WAYS), st.sampled_from([None, 0.1]))
def test_attention_over_blocks_in_any_order_equals_dense_attention(sizes, seed, lasts_only, way, scaling):
    sizes = sorted(sizes, key=lambda size: size[1] > 1)
    order = np.random.default_rng(seed).permutation(40).tolist()
    store, plain = fill_store([start + new for start, new in sizes], 40, order)
    old = [Span(table, 0, start) for (table, *_), (start, _) in zip(plain, sizes, strict=True) if start]
    if old:
        lay_out_and_attend(store, sorted(old, key=lambda s: s.length > 1), plain)
    spans = [Span(table, start, new) for (table, *_), (start, new) in zip(plain, sizes, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "varlen_attn", plain_varlen)
        found, expected = lay_out_and_attend(store, spans, plain, lasts_only, way, scaling)
    assert torch.allclose(found, expected, atol=1e-5)


def lay_out_and_attend(store, spans, plain, lasts_only=False, way=WAYS[0], scaling=None):
    """Return a layout's output for random queries, and that of plain attention."""
    by_table = {tuple(table): (keys, values) for table, keys, values in plain}
    generator = torch.Generator().manual_seed(1)
    queries = [torch.randn(HEADS, span.length, HEAD_DIM, generator=generator) for span in spans]
    new = [[tensor[:, span.start : span.end] for tensor in by_table[tuple(span.blocks)]] for span in spans]
    keys, values = (torch.cat(tensors, dim=1)[None] for tensors in zip(*new, strict=True))
    layout = BlockLayout(store, spans, way)
    packed = torch.cat(queries, dim=1)
    if lasts_only:
        packed, queries = packed[:, layout.selected], [query[:, -1:] for query in queries]
    found = layout.attend(0, packed[None], keys, values, scaling)
    expected = [
        attend_plainly(query, *(tensor[:, : span.end] for tensor in by_table[tuple(span.blocks)]), scaling)
        for query, span in zip(queries, spans, strict=True)
    ]
    return found[0], torch.cat(expected, dim=1).transpose(0, 1)


@pytest.mark.parametrize("way", WAYS[:2])
def test_siblings_attend_to_shared_blocks(way):
    store, [(table, keys, values)] = fill_store([2 * BLOCK_TOKENS], 8, range(8))
    BlockLayout(store, [Span(table, 0, len(keys[0]))], way).attend(
        0, torch.zeros(1, HEADS, len(keys[0]), HEAD_DIM), keys[None], values[None], None
    )
    own = torch.randn(2, KEY_HEADS, 3, HEAD_DIM)
    query = torch.randn(HEADS, 3, HEAD_DIM)
    spans = [Span([*table, block], 2 * BLOCK_TOKENS, 1) for block in (5, 2, 7)]
    found = BlockLayout(store, spans, way).attend(0, query[None], own[None, 0], own[None, 1], None)[0]
    for row in range(3):
        whole = [torch.cat([old, new[:, row : row + 1]], 1) for old, new in zip((keys, values), own, strict=True)]
        assert torch.allclose(found[row], attend_plainly(query[:, row : row + 1], *whole)[:, 0], atol=1e-5)


def read_blocks(decoding, query, keys, values, length):
    """Compute attention of the last of several tokens by one implementation."""
    return decoding([Span(list(range(len(keys))), length - 1, 1)], CPU).attend(query, keys, values, None)


@pytest.mark.parametrize("heads, key_heads, head_dim", [(1, 1, 3), (6, 2, 80), (7, 1, 64), (4, 4, 128)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("dtype, rtol", [(torch.float32, 1e-5), (torch.bfloat16, torch.finfo(torch.bfloat16).eps)])
def test_compiled_attention_equals_torch(heads, key_heads, head_dim, scale, dtype, rtol):
    generator = torch.Generator().manual_seed(head_dim)
    query = (scale * torch.randn(heads, 1, head_dim, generator=generator)).to(dtype)
    keys, values = torch.randn(2, 5, key_heads, BLOCK_TOKENS, head_dim, generator=generator).to(dtype)
    for length in (1, 3, BLOCK_TOKENS, 5 * BLOCK_TOKENS - 1):
        read = keys[: blocks_for(length)], values[: blocks_for(length)]
        found, expected = (read_blocks(way, query, *read, length) for way in (CompiledDecoding, Decoding))
        assert torch.allclose(found, expected, rtol=rtol, atol=1e-5 * max(1, scale))


def test_compiled_attention_is_independent_of_thread_count():
    store, plain = fill_store([300, 40, 7], 12, range(12))
    spans = [Span(table, len(keys[0]) - 1, 1) for table, keys, _ in plain]
    found = []
    for num_threads in (1, 2):
        torch.set_num_threads(num_threads)
        found.append(lay_out_and_attend(store, spans, plain)[0])
    torch.set_num_threads(1)
    assert torch.equal(*found)


def test_first_compiled_call_keeps_torchs_thread_count():
    script = """
import numba, torch
from turnsmith.engines.torch.blocks import Span
from turnsmith.engines.torch.compiled import CompiledDecoding
torch.set_num_threads(1)
keys = torch.ones(1, 1, 64, 8)
CompiledDecoding([Span([0], 0, 1)], keys.device).attend(keys[0, :, :1], keys, keys, None)
print(torch.get_num_threads(), numba.get_num_threads())
"""
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "1 1\n"


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("what", ["query", "keys", "values"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_attention_propagates_non_finite_values(what, bad, dtype):
    tensors = {
        "query": torch.ones(1, 1, 8),
        "keys": torch.ones(2, 1, BLOCK_TOKENS, 8),
        "values": torch.ones(2, 1, BLOCK_TOKENS, 8),
    }
    tensors[what].view(-1)[3] = bad
    tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    assert not read_blocks(CompiledDecoding, **tensors, length=70).isfinite().all()


@pytest.mark.parametrize("device, dtype", [("cpu", torch.float16), ("cuda", torch.float32)])
def test_only_float32_and_bfloat16_on_a_cpu_are_compiled(device, dtype):
    assert choose_parts(torch.device(device), dtype).args == (Decoding,)
    for compiled in (torch.float32, torch.bfloat16):
        assert choose_parts(CPU, compiled).args == (CompiledDecoding,)


def test_torch_computes_without_openmp(monkeypatch):
    monkeypatch.setattr("turnsmith.engines.torch.compiled.HAS_OPENMP", False)
    assert choose_parts(CPU, torch.float32).args == (Decoding,)


def test_a_block_is_free_when_its_last_reader_drops_it():
    pool = BlockPool(3)
    blocks = pool.take(2)
    pool.share(blocks[:1])
    pool.drop(blocks)
    assert (pool.num_free, pool.readers(blocks[0]), pool.readers(blocks[1])) == (2, 1, 0)
    pool.drop(blocks[:1])
    assert pool.take(3) == [0, 1, 2]


def run_turn(table, episode_id, history, room):
    """Admit a turn, hold its whole history and rest; return the admission."""
    admission = table.admit(episode_id, np.array(history)[:-1], room)
    if admission:
        sequence, _ = admission
        sequence.hold(sequence.length, history[sequence.length :])
        table.rest(sequence)
    return admission


def test_siblings_share_full_blocks_and_copy_the_diverging_one():
    table, prompt = SequenceTable(10), list(range(BLOCK_TOKENS + 10))
    first, _ = run_turn(table, "a", [*prompt, 1], 2 * BLOCK_TOKENS)
    second, copied = table.admit("b", np.array([*prompt, 2]), 2 * BLOCK_TOKENS)
    assert second.length == len(prompt)
    assert second.blocks[0] == first.blocks[0]
    assert copied == (first.blocks[1], second.blocks[1])
    assert first.blocks[1] != second.blocks[1]


def test_waiting_turn_evicts_finished_then_least_recently_used_sequences():
    table = SequenceTable(4)
    for name in ("a", "b", "c"):
        run_turn(table, name, [ord(name)] * 10, 20)
    table.release("b")
    running = table.admit("d", np.array([9] * 10), 2 * BLOCK_TOKENS)
    assert running and table.admit("e", np.array([8]), 3 * BLOCK_TOKENS) is None
    assert [table.longest_prefix(np.array([ord(name)] * 9)) for name in "abc"] == [9, 0, 9]
    assert table.admit("f", np.array([7]), 20)
    assert [table.longest_prefix(np.array([ord(name)] * 9)) for name in "abc"] == [0, 0, 9]


turns = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 100), st.integers(0, 2)), min_size=1, max_size=25)


@given(turns)
def test_no_block_is_lost_or_has_two_writers(steps):
    """Run random turns of four episodes in room for one; every sequence keeps its own tokens."""
    table, memory, histories = SequenceTable(8), {}, {}
    for episode, growth, token in steps:
        history = histories.setdefault(episode, [0] * 30)
        history += [token] * growth
        if len(history) >= 8 * BLOCK_TOKENS:
            continue
        sequence, copied = table.admit(str(episode), np.array(history)[:-1], len(history) + 1)
        if copied:
            memory[copied[1]] = dict(memory[copied[0]])
        for position in range(sequence.length, len(history)):
            memory.setdefault(sequence.blocks[position // BLOCK_TOKENS], {})[position % BLOCK_TOKENS] = history[
                position
            ]
        sequence.hold(sequence.length, history[sequence.length :])
        kept = [memory[sequence.blocks[p // BLOCK_TOKENS]][p % BLOCK_TOKENS] for p in range(len(history))]
        assert kept == history
        table.rest(sequence)


@pytest.mark.parametrize("kind", ["qwen2", "llama", "mistral", "qwen3"])
def test_bytes_per_token_match_the_stores_allocation(kind):
    model = make_model(kind)
    store = BlockStore(2, CPU)
    layout = BlockLayout(store, [Span([0], 0, 1)], WAYS[0])
    with torch.no_grad():
        model.get_decoder()(
            input_ids=torch.tensor([[1]]), position_ids=torch.tensor([[0]]), layout=layout, use_cache=False
        )
    num_bytes = sum(tensor.nbytes for layer in store._layers.values() for tensor in layer)
    assert num_bytes == 2 * BLOCK_TOKENS * kv_bytes_per_token(model.config, torch.float32)


def test_budget_below_one_episode_raises_usage_error():
    config = make_model().config
    block_bytes = BLOCK_TOKENS * kv_bytes_per_token(config, torch.float32)
    size = {"max_context": 10 * BLOCK_TOKENS, "num_episodes": 3}
    assert size_cache(config, torch.float32, **size, num_bytes=12 * block_bytes) == 12
    assert size_cache(config, torch.float32, **size, num_bytes=99 * block_bytes) == 30
    with pytest.raises(UsageError, match=r"less than one episode of max_context 640.*raise engine.kv_memory_gb"):
        size_cache(config, torch.float32, **size, num_bytes=9 * block_bytes)
