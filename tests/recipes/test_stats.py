import itertools
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import MonkeyPatch, approx, mark, raises
from scipy.stats import binomtest, permutation_test, sem, t, ttest_1samp, wilcoxon

from turnsmith.recipes import stats
from turnsmith.recipes.stats import DECIMALS, PairedRates, mean_and_sem, pass_at_k, share_interval, student_t


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


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_the_error_of_a_mean_is_that_of_scipy(values):
    assert mean_and_sem(values)[1] == approx(sem(values), rel=1e-9, abs=1e-9)


@given(st.integers(1, 400), st.data())
def test_the_interval_of_a_share_is_that_of_scipy(total, data):
    num = data.draw(st.integers(0, total))
    assert share_interval(num, total) == approx(tuple(binomtest(num, total).proportion_ci()), abs=1e-9)


@given(st.integers(1, 5_000))
def test_the_bound_of_student_s_t_is_that_of_scipy(freedom):
    assert student_t(freedom) == approx(t.ppf(0.975, freedom), rel=1e-9)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_mcnemar_is_the_binomial_test_of_scipy(pairs):
    before, after = ([float(rate) for rate in column] for column in zip(*pairs, strict=True))
    num_gained, num_lost = (sum(pair == wanted for pair in pairs) for wanted in [(False, True), (True, False)])
    expected = binomtest(num_gained, num_gained + num_lost).pvalue if num_gained + num_lost else 1.0
    assert PairedRates(before, after, ["one"] * len(pairs)).p_value_mcnemar == approx(expected)


@settings(max_examples=20)
@given(st.lists(st.sampled_from([-1.0, -2 / 3, -0.25, 0.0, 1 / 3, 0.5]), min_size=2, max_size=24), st.booleans())
def test_the_permutation_test_is_that_of_scipy_exact_and_sampled(differences, is_exact):
    with MonkeyPatch.context() as patching:
        patching.setattr(stats, "NUM_DRAWS", 2 ** len(differences) if is_exact and len(differences) < 13 else 999)
        pairs = PairedRates([0.0] * len(differences), differences, list(map(str, range(len(differences)))))
        expected = permutation_test(
            (pairs.sums,),
            lambda sums, axis: sums.sum(axis=axis).round(DECIMALS),
            permutation_type="samples",
            n_resamples=stats.NUM_DRAWS,
            batch=stats.BATCH,
            rng=0,
        )
        assert pairs.p_value == (approx(expected.pvalue) if any(differences) else 1.0)


def test_the_p_value_is_the_share_of_sign_patterns_that_go_as_far():
    """The cluster sums are 0.75, 0.25, −0.25 and three zeros: two of eight sign patterns give less than 0.75."""
    before, after, clusters = [0.0, 0.25, 0.5, 0.5, 1, 1, 1], [0.5, 0.5, 0.75, 0.25, 1, 1, 1], "aabcdef"
    assert PairedRates(before, after, clusters).p_value == approx(6 / 8)
    assert PairedRates(after, before, clusters).p_value == approx(6 / 8)
    assert PairedRates([0.0] * 7, [1.0] * 6 + [0.0], "abcdefg").p_value == approx(4 / 2**7)


def test_tasks_of_one_cluster_flip_together():
    before, after = [0.0] * 12, [1.0] * 12
    assert PairedRates(before, after, "abcdefghijkl").p_value == approx(2 / 2**12)
    assert PairedRates(before, after, "aabbccddeeff").p_value == approx(2 / 2**6)


def test_with_too_few_clusters_tasks_flip_one_by_one():
    pairs = PairedRates([0.0] * 12, [1.0] * 12, "aaaaaabbbbbb")
    assert (pairs.flipped_by, pairs.p_value) == ("task", approx(2 / 2**12))
    assert PairedRates([0.0] * 12, [1.0] * 12, "abcdefabcdef").flipped_by == "repository"


def test_a_small_shift_of_every_task_is_significant_and_no_shift_is_not():
    before, clusters = [0.0, 0.3, 0.6, 0.9] * 10, [str(task) for task in range(40)]
    assert PairedRates(before, before, clusters).p_value == 1.0
    assert PairedRates(before, [rate + 0.05 for rate in before], clusters).p_value == approx(2e-5)
    assert PairedRates([0.0, 1.0] * 20, [1.0, 0.0] * 20, clusters).p_value > 0.5


def test_the_statistics_of_a_fixed_table_are_those_of_other_programs():
    """Both tests see only signs of single attempts: 9 of 30 tasks are gained and 2 lost."""
    before, after = [0.0] * 9 + [1.0] * 2 + [1.0] * 19, [1.0] * 9 + [0.0] * 2 + [1.0] * 19
    pairs = PairedRates(before, after, ["one"] * 30)
    assert pairs.p_value_mcnemar == approx(2 * sum(math.comb(11, k) for k in (0, 1, 2)) / 2**11)
    assert pairs.p_value_mcnemar == approx(binomtest(9, 11).pvalue)
    assert pairs.p_value == approx(pairs.p_value_mcnemar, abs=0.005)
    ranks = wilcoxon(before, after, zero_method="wilcox", method="exact")
    assert pairs.p_value == approx(ranks.pvalue, abs=0.05)


def test_the_interval_over_single_tasks_is_that_of_the_paired_t_test():
    before, after = [0.0, 0.2, 0.4, 0.9, 0.1, 0.3], [0.3, 0.2, 0.5, 0.9, 0.5, 0.2]
    expected = ttest_1samp(np.subtract(after, before), 0.0).confidence_interval(0.95)
    assert PairedRates(before, after, "abcdef").interval == approx((expected.low, expected.high))
    assert PairedRates(before, [rate + 0.1 for rate in before], "abcdef").interval is None


def test_mcnemar_needs_one_attempt_per_task():
    assert PairedRates([0.0, 0.5], [1.0, 1.0], "ab").p_value_mcnemar is None
    assert PairedRates([0.0, 1.0], [0.0, 1.0], "ab").p_value_mcnemar == 1.0


@mark.parametrize("num_clusters", [10, 24])
def test_clustered_chance_is_called_a_difference_in_five_percent(num_clusters, monkeypatch):
    """Four tasks of each repository change together, and most do not change."""
    monkeypatch.setattr(stats, "NUM_DRAWS", 2_000)
    rng = np.random.default_rng(num_clusters)
    clusters = [str(task // 4) for task in range(4 * num_clusters)]
    shifts = np.repeat(rng.choice([-1, 0, 0, 1], size=(500, num_clusters)), 4, axis=1) / 3
    shifts += rng.choice([-1, 0, 0, 0, 0, 1], size=shifts.shape) / 3
    found = [PairedRates([0.0] * len(clusters), list(row), clusters).is_different for row in shifts]
    assert 0.02 < np.mean(found) < 0.07


@mark.parametrize(("num_runs", "repositories"), [(1, 1), (1, 20), (3, 3), (3, 20)])
def test_two_evaluations_of_one_policy_differ_in_at_most_five_percent(num_runs, repositories, monkeypatch):
    """Tasks differ in difficulty, and attempts are independent. The bound is two standard errors above 5 %."""
    monkeypatch.setattr(stats, "NUM_DRAWS", 1_000)
    rng, clusters = np.random.default_rng(num_runs), [str(task % repositories) for task in range(60)]
    false_alarms, misses = 0, 0
    for _ in range(400):
        chances = rng.beta(0.5, 0.8, size=60)
        pairs = PairedRates(*(list(rng.binomial(num_runs, chances) / num_runs) for _ in range(2)), clusters)
        false_alarms += pairs.is_different
        misses += pairs.interval is not None and not pairs.interval[0] <= 0 <= pairs.interval[1]
    assert false_alarms / 400 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)
    assert misses / 400 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 400)


def test_the_standard_error_of_the_difference_uses_clusters():
    before, after = [0.0, 0.2, 0.4, 0.9] * 3, [0.3, 0.2, 0.5, 0.9] * 3
    differences = [0.3, 0.0, 0.1, 0.0] * 3
    assert PairedRates(before, after, "abcdefghijkl").error == approx(np.std(differences, ddof=1) / math.sqrt(12))
    assert PairedRates(before, after, "aabbccddeeff").error == approx(np.std([0.15, 0.05] * 3, ddof=1) / math.sqrt(6))
    assert PairedRates(before, [rate + 0.1 for rate in before], "abcdefghijkl").error == approx(0, abs=1e-9)
    assert math.isnan(PairedRates([0.0], [1.0], "a").error)


def make_pairs(rng, num_tasks, gain):
    """Make rates of two checkpoints with one run per task, of which the second resolves more by `gain` on average."""
    before, after = rng.random(num_tasks) < 0.4, rng.random(num_tasks) < 0.4 + gain
    return PairedRates(before.astype(float), after.astype(float), ["one"] * num_tasks)


def test_a_difference_of_the_detectable_size_is_found_in_four_of_five_comparisons(monkeypatch):
    monkeypatch.setattr(stats, "NUM_DRAWS", 999)
    rng = np.random.default_rng(0)
    gain = make_pairs(rng, 200, 0.13).detectable
    assert 0.11 < gain < 0.16
    found = [make_pairs(rng, 200, gain).is_different for _ in range(400)]
    assert 0.72 < np.mean(found) < 0.88


def test_the_needed_number_of_tasks_finds_the_measured_difference_in_four_of_five_comparisons(monkeypatch):
    monkeypatch.setattr(stats, "NUM_DRAWS", 999)
    rng = np.random.default_rng(1)
    pairs = PairedRates([0.0] * 6 + [1.0] * 4 + [0.0] * 90, [1.0] * 6 + [0.0] * 4 + [0.0] * 90, ["one"] * 100)
    assert not pairs.is_different and pairs.num_needed > 1000
    drawn = (rng.choice(pairs.differences, pairs.num_needed) for _ in range(200))
    found = [PairedRates([0.0] * len(each), each, ["one"] * len(each)).is_different for each in drawn]
    assert 0.72 < np.mean(found) < 0.88


def test_without_error_or_difference_nothing_is_said_about_power():
    assert PairedRates([0, 0], [1, 1], ["a", "a"]).detectable is None
    assert PairedRates([0, 1], [1, 0], ["a", "a"]).num_needed is None


@mark.parametrize("share", [0.5, 0.6, 0.9])
def test_other_shares_of_student_s_t_are_those_of_scipy(share):
    assert student_t(7, share) == approx(t.ppf((1 + share) / 2, 7), rel=1e-9)
