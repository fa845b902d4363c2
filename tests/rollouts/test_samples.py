import numpy as np
from pytest import approx, mark

from turnsmith.algo.algorithm import choose_algorithm
from turnsmith.algo.names import ALGORITHMS
from turnsmith.config import StageConfig
from turnsmith.rollouts.samples import to_groups, to_rft_sample, to_samples
from turnsmith.types import Outcome, StopReason, Trajectory, Turn


def trajectory(index, outcome, *, task="a", format_error=None, cut=False, extra_turns=0):
    """Make a prompt of three tokens, turn of two, observation of one, turn of two; extra turns have no tokens."""
    turns = [
        Turn(start=3, end=5, text="one", format_error=format_error, command=None if format_error else "ls"),
        Turn(start=6, end=8, text="two", command=None if cut else "submit"),
        *[Turn(start=8, end=8, text="")] * extra_turns,
    ]
    return Trajectory(
        trajectory_id=f"t/{task}/{index}", group_id=f"t/{task}", index=index, instance_id=task, iteration=0, seed=index,
        token_ids=[1, 2, 3, 10, 11, 4, 12, 13], sampled=[False, False, False, True, True, False, True, True],
        logprobs=[0.0, 0.0, 0.0, -0.1, -0.2, 0.0, -0.3, -0.4], turns=turns, stop_reason=StopReason.SUBMITTED,
        outcome=outcome, prompt_tokens=3,
    )  # fmt: skip


STAGE = StageConfig(max_turns=8, length_threshold=4)


def trained(group, stage=STAGE):
    """Return a group's samples with the stage's advantages."""
    advantages, _ = choose_algorithm(stage)
    return to_samples(group, advantages(group))


@mark.parametrize("algorithm", ALGORITHMS.paths)
def test_member_with_zero_advantage_is_dropped_for_every_algorithm(algorithm):
    # Rewards 1, 0 and 1 − 2 / 4.
    attempts = [
        trajectory(0, Outcome.RESOLVED),
        trajectory(1, Outcome.UNRESOLVED),
        trajectory(2, Outcome.RESOLVED, extra_turns=4),
    ]
    [group] = to_groups(attempts, STAGE)
    assert [sample.trajectory_id for sample in trained(group, StageConfig(algorithm=algorithm))] == ["t/a/0", "t/a/1"]


def test_siblings_form_a_group_with_shaped_rewards():
    groups = to_groups(
        [trajectory(0, Outcome.RESOLVED), trajectory(1, Outcome.UNRESOLVED), trajectory(0, Outcome.RESOLVED, task="b")],
        STAGE,
    )
    assert [group.trajectories[0].instance_id for group in groups] == ["a", "b"]
    assert groups[0].rewards == [1.0, 0.0]


def test_groups_are_formed_by_id_in_any_order():
    attempts = [
        trajectory(0, Outcome.RESOLVED),
        trajectory(0, Outcome.RESOLVED, task="b"),
        trajectory(1, Outcome.RESOLVED),
    ]
    assert [[t.index for t in group.trajectories] for group in to_groups(attempts, STAGE)] == [[0, 1], [0]]


def test_length_penalty_follows_the_stages_limits():
    [group] = to_groups(
        [trajectory(0, Outcome.RESOLVED, extra_turns=4), trajectory(1, Outcome.UNRESOLVED, extra_turns=5)], STAGE
    )
    assert group.rewards == [1.0 - 2 / 4, -3 / 4]


def test_format_error_turns_train_in_rl():
    attempts = [trajectory(0, Outcome.RESOLVED), trajectory(1, Outcome.UNRESOLVED, format_error="no_command")]
    [group] = to_groups(attempts, STAGE)
    _, broken = trained(group)
    assert broken.loss_mask.tolist() == attempts[1].sampled.tolist()


def test_every_sampled_token_carries_the_advantage_of_its_trajectory():
    [group] = to_groups([trajectory(0, Outcome.RESOLVED), trajectory(1, Outcome.UNRESOLVED)], STAGE)
    good, bad = trained(group)
    assert (good.loss_mask == group.trajectories[0].sampled).all()
    assert good.advantages[0] == approx(1.0, abs=1e-5) and bad.advantages[0] == approx(-1.0, abs=1e-5)
    assert np.shares_memory(good.token_ids, group.trajectories[0].token_ids)


def test_equal_rewards_and_lost_members_give_no_samples():
    [equal] = to_groups([trajectory(0, Outcome.RESOLVED), trajectory(1, Outcome.RESOLVED)], STAGE)
    assert trained(equal) == []
    [lost] = to_groups([trajectory(0, Outcome.RESOLVED), trajectory(1, Outcome.SANDBOX_FAILED)], STAGE)
    assert trained(lost) == []


def test_rft_trains_with_the_prompt_without_demonstration():
    sample = to_rft_sample(trajectory(0, Outcome.RESOLVED), [7])
    assert sample.token_ids.tolist() == [7, 10, 11, 4, 12, 13]
    assert sample.loss_mask.tolist() == [False, True, True, False, True, True]


def test_rft_keeps_format_error_turns_in_the_context_but_not_in_the_loss():
    broken = trajectory(0, Outcome.RESOLVED, format_error="no_command")
    sample = to_rft_sample(broken, [1, 2, 3])
    assert sample.token_ids.tolist() == broken.token_ids.tolist()
    assert sample.loss_mask.tolist() == [False, False, False, False, False, False, True, True]


def test_rft_never_trains_a_turn_that_was_cut_at_the_context_limit():
    cut = trajectory(0, Outcome.RESOLVED, format_error="no_command", cut=True)
    assert not to_rft_sample(cut, [1, 2, 3]).loss_mask.any()
