"""Sizes of optimizer batches by unit."""

from hypothesis import given
from hypothesis import strategies as st

from turnsmith.algo.packing import make_batches, pack, split_batches
from turnsmith.types import Sample

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=30)


def make_samples(lengths):
    return [
        Sample(str(at), "g", token_ids=[0] * length, loss_mask=[False] * length, sampled_logprobs=[0.0] * length,
               advantages=[0.0] * length)
        for at, length in enumerate(lengths)
    ]  # fmt: skip


def names(batch):
    return [sample.trajectory_id for packed in batch for sample in packed.samples]


@given(lengths, st.integers(1, 6), st.integers(0, 3))
def test_batch_of_sequences_counts_packed_sequences(lengths, batch_size, seed):
    samples = make_samples(lengths)
    batches = make_batches(samples, batch_size, unit="sequences", max_tokens=40, seed=seed)
    assert all(1 <= len(batch) <= batch_size for batch in batches)
    assert all(sum(map(len, packed.samples)) <= 40 for batch in batches for packed in batch)
    assert len(batches) == -(-len(pack(samples, 40)) // batch_size)
    assert sorted(name for batch in batches for name in names(batch)) == sorted(s.trajectory_id for s in samples)


@given(lengths, st.integers(1, 6), st.integers(0, 3))
def test_batch_of_trajectories_is_split_before_packing(lengths, batch_size, seed):
    samples = make_samples(lengths)
    batches = make_batches(samples, batch_size, unit="trajectories", max_tokens=40, seed=seed)
    dealt = split_batches(samples, batch_size, seed)
    assert [sorted(names(batch)) for batch in batches] == [sorted(s.trajectory_id for s in part) for part in dealt]


def test_papers_6548_trajectories_make_about_50_steps_of_64_packed_pairs():
    samples = make_samples([30] * 6548)
    assert len(make_batches(samples, 64, unit="sequences", max_tokens=64, seed=0)) == 52
    assert len(make_batches(samples, 64, unit="trajectories", max_tokens=64, seed=0)) == 103
