"""Slots, groups of neighbours and the sampler, against plain references."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.engines.cache import Span, group_neighbours
from turnsmith.engines.sampling import draw_uniforms, sample
from turnsmith.engines.slots import SlotTable


def hold_all(histories):
    slots = SlotTable(len(histories), 12)
    for slot, history in enumerate(histories):
        slots.hold(slot, 0, history)
    return slots


def common_prefix(one, other):
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


histories = st.lists(st.lists(st.integers(0, 2), max_size=12), min_size=1, max_size=5)


@given(histories, st.lists(st.integers(0, 2), max_size=12))
def test_prefix_lengths_equal_token_by_token_comparison(histories, token_ids):
    lengths = hold_all(histories).prefix_lengths(np.array(token_ids, dtype=np.int64))
    assert lengths.tolist() == [common_prefix(history, token_ids) for history in histories]


def test_holding_a_shorter_history_forgets_what_lay_behind_it():
    slots = hold_all([[1, 2, 3, 4]])
    slots.hold(0, 1, [9])
    assert slots.prefix_lengths(np.array([1, 9, 3, 4])).tolist() == [2]


def test_an_episode_finds_its_own_slot_then_free_ones_then_the_longest_idle():
    slots = SlotTable(2, 4)
    a, b = slots.assign("a"), slots.assign("b")
    assert {a, b} == {0, 1}
    assert slots.all_busy
    slots.rest(b)
    slots.rest(a)
    assert slots.assign("a") == a
    slots.rest(a)
    assert slots.assign("c") == b
    slots.rest(b)
    slots.release("c")
    assert slots.assign("d") == b


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 600)), min_size=1, max_size=30))
def test_groups_are_runs_of_adjacent_slots_that_keep_order_and_lose_nothing(steps):
    slot, spans = 0, []
    for gap, end in steps:
        slot += gap
        spans.append(Span(slot, end - 1, 1))
    groups = group_neighbours(spans)
    assert [span for group in groups for span in group] == spans
    for group in groups:
        assert [span.slot for span in group] == list(range(group[0].slot, group[0].slot + len(group)))


@given(st.integers(0, 1_000))
def test_sampling_is_the_inverse_of_the_cumulative_distribution(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(5, 23, generator=generator)
    uniforms = torch.rand(5, generator=generator, dtype=torch.float64)
    token_ids, logprobs = sample(logits, uniforms)
    for row in range(5):
        shares = np.exp(logits[row].double().numpy())
        cumulative = np.cumsum(shares / shares.sum())
        assert token_ids[row] == np.searchsorted(cumulative, uniforms[row].item(), side="right")
        assert logprobs[row].item() == pytest.approx(np.log(shares / shares.sum())[token_ids[row]], abs=1e-5)


def test_an_impossible_token_is_never_sampled_even_at_the_ends():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]] * 3)
    token_ids, _ = sample(logits, torch.tensor([0.0, 0.5, np.nextafter(1.0, 0.0)], dtype=torch.float64))
    assert token_ids.tolist() == [1, 3, 3]


def test_noise_depends_on_the_seed_and_a_longer_draw_begins_the_same():
    assert np.array_equal(draw_uniforms(3, 10), draw_uniforms(3, 20)[:10])
    assert not np.array_equal(draw_uniforms(3, 10), draw_uniforms(4, 10))
