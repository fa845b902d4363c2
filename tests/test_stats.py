import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx, mark, raises

from turnsmith import stats
from turnsmith.stats import mean_and_sem, paired_error, paired_p_value, pass_at_k


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


def test_the_p_value_is_the_share_of_sign_patterns_that_go_as_far():
    """Sums by cluster 0.75, 0.25, −0.25 together make 0.75; of eight patterns of signs only two make less: 0.25."""
    before, after, clusters = [0.0, 0.25, 0.5, 0.5], [0.5, 0.5, 0.75, 0.25], ["a", "a", "b", "c"]
    assert paired_p_value(before, after, clusters) == approx(6 / 8)
    assert paired_p_value(after, before, clusters) == approx(6 / 8)
    assert paired_p_value([0.0] * 5, [1.0, 1.0, 1.0, 1.0, 0.0], list("abcde")) == approx(4 / 32)


def test_tasks_of_one_cluster_are_one_witness():
    before, after = [0.0] * 12, [1.0] * 12
    assert paired_p_value(before, after, list("abcdefghijkl")) == approx(2 / 2**12)
    assert paired_p_value(before, after, list("aaaabbbbcccc")) == approx(2 / 2**3)
    assert paired_p_value(before, after, ["a"] * 12) == 1.0


def test_equal_checkpoints_are_noise_and_a_small_shift_of_every_task_is_not():
    before, clusters = [0.0, 0.3, 0.6, 0.9] * 10, [str(task) for task in range(40)]
    assert paired_p_value(before, before, clusters) == 1.0
    assert paired_p_value(before, [rate + 0.05 for rate in before], clusters) == approx(1 / 100_001)
    assert paired_p_value([0.0, 1.0] * 20, [1.0, 0.0] * 20, clusters) > 0.5


@mark.parametrize("num_clusters", [10, 24])
def test_five_percent_of_clustered_noise_is_taken_for_a_difference(num_clusters, monkeypatch):
    """Four tasks of each repository move together, most of them not at all."""
    monkeypatch.setattr(stats, "NUM_DRAWS", 2_000)
    rng = np.random.default_rng(num_clusters)
    clusters = [str(task // 4) for task in range(4 * num_clusters)]
    shifts = np.repeat(rng.choice([-1, 0, 0, 1], size=(1_000, num_clusters)), 4, axis=1) / 3
    shifts += rng.choice([-1, 0, 0, 0, 0, 1], size=shifts.shape) / 3
    found = [paired_p_value([0.0] * len(clusters), list(row), clusters) <= 0.05 for row in shifts]
    assert 0.02 < np.mean(found) < 0.07


def test_the_paired_error_is_that_of_the_difference_by_clusters():
    before, after = [0.0, 0.2, 0.4, 0.9], [0.3, 0.2, 0.5, 0.9]
    differences = [0.3, 0.0, 0.1, 0.0]
    assert paired_error(before, after, list("abcd")) == approx(np.std(differences, ddof=1) / 2)
    assert paired_error(before, after, list("aabb")) == approx(np.std([0.15, 0.05], ddof=1) / math.sqrt(2))
    assert paired_error(before, [rate + 0.1 for rate in before], list("abcd")) == approx(0, abs=1e-12)
    assert math.isnan(paired_error(before, after, list("aaaa")))
