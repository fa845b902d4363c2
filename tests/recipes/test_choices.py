"""Correction for the choice of the best of several checkpoints: a plain reference, and simulations."""

import itertools
import math

import numpy as np
from pytest import approx, mark

from turnsmith.recipes import choices
from turnsmith.recipes.choices import ChosenRates
from turnsmith.recipes.stats import PairedRates


def find_exact_p_value(before, after, first, second):
    """Enumerate all permutations of the checkpoints within each task."""
    rows, split = [*zip(*before, *after, strict=True)], len(before)

    def largest(rows):
        totals = [sum(column) for column in zip(*rows, strict=True)]
        return [[abs(there - here) for there in totals[split:]] for here in totals[:split]]

    observed = largest(rows)[first][second]
    every = itertools.product(*(itertools.permutations(row) for row in rows))
    found = [max(map(max, largest(permuted))) >= observed - 1e-9 for permuted in every]
    return sum(found) / len(found)


@mark.parametrize(
    ("before", "after"),
    [
        ([[0, 0, 0, 0, 1]], [[1, 0, 1, 0, 1], [1, 1, 1, 0, 1]]),
        ([[0, 0.5, 0, 1], [0, 0, 0, 1]], [[1, 0.5, 1, 1], [0, 1, 0.5, 0]]),
        ([[0, 0, 0, 0, 0, 0]], [[1, 1, 1, 1, 1, 1]]),
    ],
)
def test_the_adjusted_p_value_is_the_share_of_permutations_with_such_a_pair(before, after):
    rates = ChosenRates(before, after, ["one"] * len(before[0]))
    for first, second in itertools.product(range(len(before)), range(len(after))):
        expected = find_exact_p_value(before, after, first, second)
        error = math.sqrt(expected * (1 - expected) / choices.NUM_PERMUTATIONS)
        assert rates.find_p_value(first, second) == approx(expected, abs=4 * error + 1e-3)


def test_a_checkpoint_that_was_not_chosen_has_the_p_value_of_the_plain_comparison():
    before, after, clusters = [0.0, 0.3, 0.6, 0.9] * 10, [0.2, 0.3, 0.5, 1.0] * 10, [str(n // 4) for n in range(40)]
    plain = PairedRates(before, after, clusters).p_value
    assert ChosenRates([before], [after], clusters).find_p_value(0, 0) == approx(plain, abs=0.02)


def test_the_gain_is_measured_outside_the_tasks_of_the_choice():
    """Three tasks, two checkpoints: each resample is weighted by its number of draws that give it."""
    before, after = [0.0, 0.0, 0.0], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]
    gains = []
    for drawn in itertools.product(range(3), repeat=3):
        outside = sorted({0, 1, 2} - set(drawn))
        if outside:
            best = max(after, key=lambda rates: sum(rates[task] for task in drawn))
            gains.append(np.mean([best[task] for task in outside]))
    assert ChosenRates([before], after, ["one"] * 3).gain == approx(np.mean(gains), abs=0.03)
    assert ChosenRates([[0.0]], [[1.0], [0.0]], ["one"]).gain is None


def simulate(rng, num_checkpoints, num_tasks, repositories):
    """Evaluate equal checkpoints once: rates of the base, and of each checkpoint."""
    chances = rng.beta(0.5, 0.8, size=num_tasks)
    base, *others = (rng.binomial(2, chances) / 2 for _ in range(num_checkpoints + 1))
    return base, others, [str(task % repositories) for task in range(num_tasks)]


@mark.parametrize("repositories", [1, 20])
def test_among_equal_checkpoints_a_difference_is_found_in_five_percent_and_the_gain_is_zero(repositories, monkeypatch):
    """The bounds are three standard errors wide. Without the correction, the error rate and the gain are too high."""
    monkeypatch.setattr(choices, "NUM_PERMUTATIONS", 299)
    monkeypatch.setattr(choices, "NUM_RESAMPLES", 100)
    rng, num = np.random.default_rng(repositories), 300
    false_alarms, plain_alarms, gains, plain_gains = [], [], [], []
    for _ in range(num):
        base, others, clusters = simulate(rng, 6, 60, repositories)
        rates, means = ChosenRates([base], others, clusters), [each.mean() - base.mean() for each in others]
        furthest = int(np.argmax(np.abs(means)))
        false_alarms.append(rates.find_p_value(0, furthest) <= 0.05)
        differences = others[furthest] - base
        plain_alarms.append(abs(differences.mean()) > 1.96 * differences.std() / math.sqrt(60))
        gains.append(rates.gain)
        plain_gains.append(max(means))
    assert abs(np.mean(false_alarms) - 0.05) <= 3 * math.sqrt(0.05 * 0.95 / num) < np.mean(plain_alarms) - 0.05
    assert abs(np.mean(gains)) <= 3 * np.std(gains) / math.sqrt(num) < np.mean(plain_gains)


def test_a_better_checkpoint_among_equal_ones_is_still_found(monkeypatch):
    monkeypatch.setattr(choices, "NUM_PERMUTATIONS", 299)
    rng, found = np.random.default_rng(0), []
    for _ in range(100):
        base, others, clusters = simulate(rng, 4, 150, 1)
        better = np.maximum(base, rng.random(150) < 0.2)
        found.append(ChosenRates([base], [*others, better], clusters).find_p_value(0, 4) <= 0.05)
    assert np.mean(found) > 0.8
