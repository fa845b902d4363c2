"""Group-normalised advantages against the formula, and what leaves no trace in them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.algo.advantages import group_advantages, has_signal
from turnsmith.types import Group, Outcome, StopReason, Trajectory

INFRASTRUCTURE = [Outcome.UNGRADED, Outcome.SANDBOX_FAILED, Outcome.ENGINE_FAILED, Outcome.GRADER_FAILED]
AGENT = [outcome for outcome in Outcome if outcome not in INFRASTRUCTURE]

members = st.tuples(st.sampled_from(AGENT), st.floats(-1, 1))


def make_group(members):
    trajectories = [
        Trajectory(
            trajectory_id=f"t{index}",
            group_id="g",
            index=index,
            instance_id="task",
            iteration=0,
            seed=0,
            token_ids=[1, 2],
            sampled=[False, True],
            logprobs=[0.0, -1.0],
            turns=[],
            stop_reason=StopReason.SUBMITTED,
            outcome=outcome,
        )
        for index, (outcome, _) in enumerate(members)
    ]
    return Group(group_id="g", trajectories=trajectories, rewards=[reward for _, reward in members])


@pytest.mark.parametrize(("std", "ddof"), [("population", 0), ("sample", 1)])
@given(st.lists(members, min_size=2, max_size=10))
def test_advantages_equal_the_formula(std, ddof, members):
    rewards = np.array([reward for _, reward in members])
    expected = (rewards - rewards.mean()) / (rewards.std(ddof=ddof) + 1e-6)
    assert list(group_advantages(make_group(members), std).values()) == pytest.approx(list(expected), abs=1e-6)


@given(
    st.lists(members, min_size=2, max_size=8),
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from(INFRASTRUCTURE), st.floats(-5, 5)), max_size=5),
    st.sampled_from(["population", "sample"]),
    st.sampled_from(["final", "resolved"]),
)
def test_infrastructure_never_changes_a_sibling_and_never_trains(members, failures, std, rule):
    clean = make_group(members)
    mixed = list(zip(members, clean.trajectories, strict=True))
    for index, (position, outcome, reward) in enumerate(failures):
        failed = clean.trajectories[0].model_copy(update={"trajectory_id": f"lost{index}", "outcome": outcome})
        mixed.insert(position, ((outcome, reward), failed))
    group = Group(group_id="g", trajectories=[t for _, t in mixed], rewards=[reward for (_, reward), _ in mixed])
    assert group_advantages(group, std) == group_advantages(clean, std)
    assert has_signal(group, rule) == has_signal(clean, rule)


@pytest.mark.parametrize("rule", ["final", "resolved"])
def test_a_group_with_fewer_than_two_counted_members_is_dropped(rule):
    group = make_group([(Outcome.RESOLVED, 1.0), (Outcome.SANDBOX_FAILED, 0.0)])
    assert group_advantages(group, "sample") == {}
    assert not has_signal(group, rule)


def test_the_two_readings_of_zero_advantage_differ_on_failures_of_unequal_length():
    group = make_group([(Outcome.UNRESOLVED, 0.0), (Outcome.EMPTY_PATCH, -0.4)])
    assert has_signal(group, "final")
    assert not has_signal(group, "resolved")


def test_a_group_where_one_of_two_is_resolved_has_signal_in_both_readings():
    group = make_group([(Outcome.RESOLVED, 1.0), (Outcome.UNRESOLVED, 0.0)])
    assert has_signal(group, "final") and has_signal(group, "resolved")


def test_equal_rewards_have_no_signal_under_the_literal_reading():
    group = make_group([(Outcome.RESOLVED, 0.5), (Outcome.RESOLVED, 0.5)])
    assert not has_signal(group, "final")
    assert list(group_advantages(group, "population").values()) == [0.0, 0.0]
