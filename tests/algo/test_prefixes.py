"""Families of samples with a common prefix, and packing that counts their shared tokens once."""

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.algo.packing import make_batches, pack, split_by_group
from turnsmith.algo.prefixes import Family, common_prefix, count_tokens, find_families, place
from turnsmith.types import Sample

# With two token ids, samples often start with the same tokens.
texts = st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 1), min_size=1, max_size=12)), max_size=9)


def make_samples(texts):
    return [
        Sample(f"t{at}", group, token_ids, *([0] * len(token_ids) for _ in range(3)))
        for at, (group, token_ids) in enumerate(texts)
    ]


def count_at_least(samples):
    """Count the tokens of the best of all possible divisions into families."""
    sizes = []
    for cuts in itertools.product([False, True], repeat=max(0, len(samples) - 1)):
        borders = [0, *(at for at, is_cut in enumerate(cuts, start=1) if is_cut), len(samples)]
        families = [samples[start:end] for start, end in itertools.pairwise(borders)]
        sizes.append(sum(map(len, samples)) - sum(save(family) for family in families))
    return min(sizes)


def save(samples):
    """Count the tokens that samples save by sharing what all have in common."""
    return min(common_prefix(samples[0], each) for each in samples) * (len(samples) - 1) if samples else 0


@given(texts)
def test_families_have_the_smallest_possible_number_of_tokens(texts):
    samples = make_samples(texts)
    assert count_tokens(samples) == count_at_least(samples)


@given(texts)
def test_families_cover_all_samples_in_order_and_hold_what_these_have_in_common(texts):
    samples = make_samples(texts)
    rest = iter(samples)
    for family in find_families(samples):
        members = list(itertools.islice(rest, len(family.suffixes)))
        assert [len(each) - family.prefix for each in members] == family.suffixes
        assert len({each.group_id for each in members}) == 1
        assert len({tuple(each.token_ids[: family.prefix]) for each in members}) == 1
        assert len(members) > 1 or family.prefix == 0
    assert not list(rest)


@given(texts)
def test_the_places_of_a_row_hold_all_tokens_of_the_samples(texts):
    samples = make_samples(texts)
    families = find_families(samples)
    places, token_ids = place(families), np.concatenate([np.empty(0, int), *(each.token_ids for each in samples)])
    row = np.full(sum(family.num_tokens for family in families), -1)
    row[places] = token_ids
    assert (row[places] == token_ids).all() and (row >= 0).all()


def test_an_odd_sample_does_not_undo_the_sharing_of_the_others():
    samples = make_samples([("a", [0, *[1] * 9]), *(("a", [1, 1, 1, 1, at]) for at in (5, 6, 7))])
    assert find_families(samples) == [Family(0, [10]), Family(4, [1, 1, 1])]


@given(texts, st.integers(1, 40))
def test_packing_with_shared_prefixes_keeps_all_samples_and_counts_shared_tokens_once(texts, max_tokens):
    samples = make_samples(texts)
    packed = pack(samples, max_tokens, share_prefixes=True)
    assert Counter(s.trajectory_id for m in packed for s in m.samples) == Counter(s.trajectory_id for s in samples)
    assert all(m.share_prefixes and m.samples for m in packed)
    assert all(count_tokens(m.samples) <= max_tokens or len(m.samples) == 1 for m in packed)


@given(texts, st.integers(13, 200))
def test_a_group_that_fits_into_one_micro_batch_is_not_split(texts, max_tokens):
    samples = make_samples(texts)
    packed = pack(samples, max_tokens, share_prefixes=True)
    for name in {sample.group_id for sample in samples}:
        holding = [m for m in packed if any(sample.group_id == name for sample in m.samples)]
        alone = sorted((s for s in samples if s.group_id == name), key=lambda sample: sample.token_ids.tobytes())
        assert len(holding) == 1 or count_tokens(alone) > max_tokens


@given(texts, st.integers(1, 5), st.integers(0, 3), st.sampled_from(["trajectories", "sequences"]))
def test_batches_with_shared_prefixes_are_few_equal_and_complete(texts, batch_size, seed, unit):
    samples = make_samples(texts)
    batches = make_batches(samples, batch_size, unit=unit, max_tokens=30, seed=seed, share_prefixes=True)
    names = [s.trajectory_id for batch in batches for m in batch for s in m.samples]
    assert sorted(names) == sorted(s.trajectory_id for s in samples)
    sizes = [sum(len(m.samples) for m in batch) if unit == "trajectories" else len(batch) for batch in batches]
    assert all(1 <= size <= batch_size for size in sizes) and (not sizes or max(sizes) - min(sizes) <= 1)


@given(texts, st.integers(1, 5), st.integers(0, 3))
def test_only_groups_at_the_border_of_batches_are_split(texts, batch_size, seed):
    batches = split_by_group(make_samples(texts), batch_size, seed)
    order = [sample.group_id for batch in batches for sample in batch]
    assert len(list(itertools.groupby(order))) == len(set(order))
