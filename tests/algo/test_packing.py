"""Packing without loss or padding, within the token bound."""

import itertools
import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from turnsmith.algo.packing import pack, split_batches
from turnsmith.types import Sample


def make_samples(lengths):
    return [
        Sample(f"t{index}", "g", list(range(n)), [False] * n, [0.0] * n, [0.0] * n) for index, n in enumerate(lengths)
    ]


lengths = st.lists(st.integers(1, 120), max_size=40)


@given(lengths, st.integers(1, 150))
def test_packing_keeps_all_samples_and_only_single_long_ones_exceed_the_bound(lengths, max_tokens):
    samples = make_samples(lengths)
    packed = pack(samples, max_tokens)
    assert Counter(s.trajectory_id for m in packed for s in m.samples) == Counter(s.trajectory_id for s in samples)
    assert all(sum(map(len, m.samples)) <= max_tokens or len(m.samples) == 1 for m in packed)
    assert all(m.samples for m in packed)


@given(lengths, st.integers(1, 150))
def test_no_two_adjacent_micro_batches_could_be_merged(lengths, max_tokens):
    packed = pack(make_samples(lengths), max_tokens)
    assert all(sum(map(len, a.samples)) + min(map(len, b.samples)) > max_tokens for a, b in itertools.pairwise(packed))


@given(lengths, st.integers(1, 150))
def test_packing_is_deterministic(lengths, max_tokens):
    def names():
        return [[s.trajectory_id for s in batch.samples] for batch in pack(make_samples(lengths), max_tokens)]

    assert names() == names()


@given(lengths, st.integers(1, 20), st.integers(0, 5))
def test_batches_are_few_equal_and_complete(lengths, batch_size, seed):
    samples = make_samples(lengths)
    batches = split_batches(samples, batch_size, seed)
    assert sorted(s.trajectory_id for b in batches for s in b) == sorted(s.trajectory_id for s in samples)
    sizes = [len(batch) for batch in batches]
    assert len(batches) == math.ceil(len(samples) / batch_size)
    assert all(size <= batch_size for size in sizes) and (not sizes or max(sizes) - min(sizes) <= 1)
    assert batches == split_batches(samples, batch_size, seed)


def test_seed_determines_the_order():
    samples = make_samples([3] * 30)
    assert split_batches(samples, 5, seed=0) != split_batches(samples, 5, seed=1)
