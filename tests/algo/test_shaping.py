import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.algo.advantages import has_signal
from turnsmith.algo.shaping import length_penalty, permute_rewards, shape_reward
from turnsmith.types import Group, Outcome, StopReason, Trajectory


@pytest.mark.parametrize(
    ("resolved", "num_turns", "expected"),
    [(True, 9, 1), (True, 10, 1), (True, 25, 0.5), (True, 40, 0), (False, 3, 0), (False, 40, -1), (False, 13, -0.1)],
)
def test_rewards_equal_the_numbers_of_the_paper(resolved, num_turns, expected):
    assert shape_reward(resolved, num_turns, length_threshold=10, max_turns=40) == pytest.approx(expected)


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 100))
def test_the_penalty_never_rises_with_length_and_stays_within_bounds(threshold, room, num_turns):
    limits = {"length_threshold": threshold, "max_turns": threshold + room}
    penalty = length_penalty(min(num_turns, threshold + room), **limits)
    assert -1 <= penalty <= 0
    assert length_penalty(num_turns + 1, **limits) <= length_penalty(num_turns, **limits)


@given(st.integers(1, 50), st.integers(0, 100))
def test_a_threshold_at_the_limit_of_turns_is_no_penalty(max_turns, num_turns):
    assert length_penalty(num_turns, length_threshold=max_turns, max_turns=max_turns) == 0


def trajectory(outcome):
    return Trajectory(
        trajectory_id="t",
        group_id="g",
        index=0,
        instance_id="i",
        iteration=0,
        seed=0,
        stop_reason=StopReason.SUBMITTED,
        outcome=outcome,
    )


marked = st.lists(st.tuples(st.floats(-1, 1), st.booleans()), max_size=5)


@given(st.lists(marked, max_size=5), st.integers())
def test_permuting_keeps_all_rewards_group_sizes_and_infrastructure_failures(groups, seed):
    outcome = {True: Outcome.UNRESOLVED, False: Outcome.SANDBOX_FAILED}
    before = [
        Group(
            group_id="g",
            trajectories=[trajectory(outcome[counts]) for _, counts in group],
            rewards=[reward for reward, _ in group],
        )
        for group in groups
    ]
    after = permute_rewards(before, seed)
    assert after == permute_rewards(before, seed)
    assert sorted(reward for group in after for reward in group.rewards) == sorted(
        reward for group in before for reward in group.rewards
    )
    for group, permuted in zip(groups, after, strict=True):
        broken = [at for at, (_, counts) in enumerate(group) if not counts]
        assert [permuted.rewards[at] for at in broken] == [group[at][0] for at in broken]


def test_permuting_crosses_groups():
    ones = Group(group_id="a", trajectories=[trajectory(Outcome.RESOLVED)] * 8, rewards=[1.0] * 8)
    zeros = Group(group_id="b", trajectories=[trajectory(Outcome.UNRESOLVED)] * 8, rewards=[0.0] * 8)
    first, second = permute_rewards([ones, zeros], seed=0)
    assert 0 < sum(first.rewards) < 8
    assert sum(first.rewards) + sum(second.rewards) == 8


def test_a_permuted_reward_keeps_its_outcome():
    solved = Group(group_id="a", trajectories=[trajectory(Outcome.RESOLVED)] * 8, rewards=[1.0] * 8)
    failed = Group(group_id="b", trajectories=[trajectory(Outcome.UNRESOLVED)] * 8, rewards=[0.0] * 8)
    assert not has_signal(solved, "resolved") and not has_signal(failed, "resolved")
    for group in permute_rewards([solved, failed], seed=0):
        assert has_signal(group, "resolved")
        assert [float(member.resolved) for member in group.trajectories] == group.rewards
