"""Advantages compared with their formulas, and groups without signal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.episodes.small_batches import make_group, rewarded
from turnsmith.algo.advantages import has_signal, leave_one_out, normalised
from turnsmith.config import Section
from turnsmith.types import Outcome

rewards = st.lists(st.floats(-1, 1), min_size=2, max_size=10)
both_rules = pytest.mark.parametrize("rule", ["final", "resolved"])


@given(values=rewards)
def test_normalised_advantages_equal_the_formula(values):
    values = np.array(values)
    expected = (values - values.mean()) / (values.std() + 1e-6)
    advantages = normalised(rewarded(*values), Section())
    assert list(advantages.values()) == pytest.approx(list(expected), abs=1e-6)


@given(rewards)
def test_leave_one_out_equals_the_mean_of_the_others(values):
    others = [(sum(values) - value) / (len(values) - 1) for value in values]
    expected = [value - other for value, other in zip(values, others, strict=True)]
    assert list(leave_one_out(rewarded(*values), Section()).values()) == pytest.approx(expected, abs=1e-9)


@both_rules
@given(st.lists(st.tuples(st.sampled_from([Outcome.RESOLVED, Outcome.UNRESOLVED]), st.floats(-1, 1)), max_size=5))
def test_infrastructure_failures_do_not_affect_the_signal(rule, members):
    lost = [(Outcome.SANDBOX_FAILED, 7.0), (Outcome.GRADER_FAILED, -7.0)]
    assert has_signal(make_group(members + lost), rule) == has_signal(make_group(members), rule)


@both_rules
def test_group_with_fewer_than_two_counted_members_is_dropped(rule):
    assert not has_signal(make_group([(Outcome.RESOLVED, 1.0), (Outcome.SANDBOX_FAILED, 0.0)]), rule)


def test_signal_of_failures_of_unequal_length_depends_on_the_reading():
    group = make_group([(Outcome.UNRESOLVED, 0.0), (Outcome.EMPTY_PATCH, -0.4)])
    assert has_signal(group, "final")
    assert not has_signal(group, "resolved")


@both_rules
def test_one_resolved_of_two_has_signal_in_both_readings(rule):
    assert has_signal(make_group([(Outcome.RESOLVED, 1.0), (Outcome.UNRESOLVED, 0.0)]), rule)


def test_equal_rewards_have_no_signal_under_the_literal_reading():
    group = make_group([(Outcome.RESOLVED, 0.5), (Outcome.RESOLVED, 0.5)])
    assert not has_signal(group, "final")
    assert list(normalised(group, Section()).values()) == [0.0, 0.0]
