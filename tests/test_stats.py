import itertools
import math

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx, raises

from turnsmith.stats import mean_and_sem, paired_p_value, pass_at_k


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_at_k_is_the_share_of_k_subsets_that_hold_a_resolved_rollout(resolved, data):
    k = data.draw(st.integers(1, len(resolved)))
    subsets = list(itertools.combinations(resolved, k))
    assert pass_at_k(len(resolved), sum(resolved), k) == approx(sum(map(any, subsets)) / len(subsets))


def test_pass_at_k_refuses_fewer_rollouts_than_k():
    with raises(ValueError, match="at least 3 rollouts"):
        pass_at_k(2, 1, 3)


def test_the_error_is_the_sample_deviation_over_the_root_of_the_runs():
    assert mean_and_sem([0.1, 0.2, 0.3]) == (approx(0.2), approx(0.1 / math.sqrt(3)))
    assert math.isnan(mean_and_sem([0.5])[1])


def test_equal_checkpoints_are_noise_and_a_shift_of_every_task_is_not():
    before = [0.0, 0.1, 0.2, 0.3] * 10
    assert paired_p_value(before, before) == 1.0
    assert paired_p_value(before, [rate + 0.3 for rate in before]) < 1e-6
    assert paired_p_value([0.0, 1.0] * 20, [1.0, 0.0] * 20) > 0.5
