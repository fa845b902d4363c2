"""Statistics of evaluations: Pass@1 with its standard error over runs, unbiased pass@k, comparison of two checkpoints."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.05
"""Significance level: two checkpoints count as different if the p-value is at most this."""
POWER = 0.8
"""Probability with which a difference of the minimum detectable size is found significant."""
MIN_CLUSTERS = 6
"""Minimum number of repositories for a permutation test by repository. Five allow no p-value below 2 / 2⁵ = 0.06."""
NUM_DRAWS = 99_999
"""Number of random combinations of signs that the permutation test tries; if fewer exist, it tries all of them."""
BATCH = 5_000
"""Number of combinations of signs that the permutation test holds in memory at once."""
NUM_HALVINGS = 60
"""Number of bisection steps, enough for the precision of a float."""
DECIMALS = 9
"""Number of decimals of sums in permutation tests, so that sums that differ only by rounding errors compare as equal."""


def pass_at_k(num_rollouts: int, num_resolved: int, k: int) -> float:
    """Estimate without bias the probability that at least one of k rollouts resolves a task: 1 − C(n−c, k) / C(n, k).

    Two of four resolved, k = 2: 1 − C(2, 2) / C(4, 2) = 5/6. Raises ValueError if n < k.
    """
    if num_rollouts < k:
        raise ValueError(f"pass@{k} needs at least {k} rollouts, not {num_rollouts}")
    return 1.0 - math.comb(num_rollouts - num_resolved, k) / math.comb(num_rollouts, k)


def mean_and_sem(values: Sequence[float]) -> tuple[float, float]:
    """Compute the mean and its standard error, which is NaN for a single value."""
    return float(np.mean(values)), measure_error(values) if len(values) > 1 else math.nan


def measure_error(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Compute the standard error of the mean of at least two values."""
    return float(np.std(values, ddof=1)) / math.sqrt(len(values))


def share_interval(num: int, total: int) -> tuple[float, float]:
    """Compute the exact (Clopper–Pearson) 95 % interval of a share: 0 of 60 → (0, 0.06)."""
    return lowest_share(num, total), 1 - lowest_share(total - num, total)


def lowest_share(num: int, total: int) -> float:
    """Compute the lower bound of the Clopper–Pearson interval: the share at which P(X ≥ num) is 2.5 %."""
    if num == 0:
        return 0.0
    return solve(lambda share: chance_of_at_least(num, total, share), LEVEL / 2, 0.0, 1.0)


def chance_of_at_least(num: int, total: int, share: float) -> float:
    """Compute the binomial P(X ≥ num) for `total` trials by logarithms, since binomial coefficients overflow a float."""
    hit, miss = math.log(share), math.log1p(-share)
    ways = (math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1) for k in range(num, total + 1))
    return math.fsum(math.exp(way + k * hit + (total - k) * miss) for k, way in enumerate(ways, start=num))


def student_t(freedom: int, share: float = 1 - LEVEL) -> float:
    """Compute t with P(|T| ≤ t) = `share` for Student's T with an integer number of degrees of freedom."""
    return math.sqrt(freedom) * math.tan(solve(lambda angle: share_within(angle, freedom), share, 0.0, math.pi / 2))


def share_within(angle: float, freedom: int) -> float:
    """Compute P(|T| ≤ √freedom · tan(angle)) for Student's T by the finite series 26.7.3 and 26.7.4 of Abramowitz and Stegun."""
    is_odd = freedom % 2 == 1
    cosine, total = math.cos(angle), 0.0
    term = cosine if is_odd else 1.0
    for exponent in range(3 if is_odd else 2, freedom + 1, 2):
        total += term
        term *= (exponent - 1) / exponent * cosine**2
    return (angle + math.sin(angle) * total) * 2 / math.pi if is_odd else math.sin(angle) * total


def solve(rising: Callable[[float], float], target: float, low: float, high: float) -> float:
    """Find by bisection the argument between `low` and `high` at which a rising function reaches `target`."""
    for _ in range(NUM_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class PairedRates:
    """Resolved rates of two checkpoints on the same tasks. The three sequences have one item per task."""

    before: Sequence[float]
    """Resolved rate of each task at the first checkpoint, 0 to 1."""
    after: Sequence[float]
    """Resolved rate of each task at the second checkpoint, 0 to 1."""
    clusters: Sequence[str]
    """Repository of each task; results of tasks of one repository are correlated."""

    @cached_property
    def differences(self) -> NDArray[np.float64]:
        """Difference of the rates of each task, after minus before."""
        return np.subtract(self.after, self.before, dtype=np.float64)

    @property
    def means(self) -> tuple[float, float]:
        """Mean rates over tasks, before and after."""
        return float(np.mean(self.before)), float(np.mean(self.after))

    @property
    def mean(self) -> float:
        """Mean over tasks of the rates' difference, after minus before."""
        return float(self.differences.mean())

    @property
    def flipped_by(self) -> Literal["repository", "task"]:
        """Unit whose sign the permutation test flips: repository or, with fewer than `MIN_CLUSTERS` of these, task."""
        return choose_unit(self.clusters)

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """Sum of the rates' differences of each repository, or of each task if `flipped_by` is `task`."""
        return sum_units(self.differences, self.clusters)

    @cached_property
    def error(self) -> float:
        """Standard error of the mean difference, over repositories or tasks; NaN if there is only one."""
        residuals = sum_units(self.differences - self.mean, self.clusters)
        return measure_error(residuals) * len(residuals) / len(self.differences) if len(residuals) > 1 else math.nan

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean difference by Student's t; None if the standard error is zero or unknown."""
        if not self.error > 10**-DECIMALS:
            return None
        reach = student_t(len(self.sums) - 1) * self.error
        return self.mean - reach, self.mean + reach

    @property
    def detectable(self) -> float | None:
        """Minimum detectable effect: true mean difference that a comparison like this finds significant with probability `POWER`.

        It is (t₀.₉₇₅ + t₀.₈) · standard error, with quantiles of Student's t. None if the standard error is zero or unknown.
        """
        if not self.error > 10**-DECIMALS:
            return None
        freedom = len(self.sums) - 1
        return (student_t(freedom) + student_t(freedom, 2 * POWER - 1)) * self.error

    @property
    def num_needed(self) -> int | None:
        """Number of units (`flipped_by`) that would detect the measured difference, if true, with probability `POWER`.

        The standard error falls with the root of this number. None if the difference or its standard error is zero or unknown.
        """
        if self.detectable is None or abs(self.mean) < 10**-DECIMALS:
            return None
        return math.ceil(len(self.sums) * (self.detectable / self.mean) ** 2)

    @cached_property
    def p_value(self) -> float:
        """Compute the p-value of the mean difference by a two-sided sign-flip permutation test.

        If both checkpoints were equal, the sum of differences of each unit could have either sign. All combinations of
        signs are tried if they are few, else a random sample with a fixed seed.
        """
        if len(self.sums) < 2 or not self.sums.any():
            return 1.0
        observed = self.sums.sum().round(DECIMALS)
        totals = flip_all(self.sums) if 2 ** len(self.sums) <= NUM_DRAWS else np.append(draw_flips(self.sums), observed)
        num_as_far = min(np.count_nonzero(totals <= observed), np.count_nonzero(totals >= observed))
        return min(1.0, 2 * num_as_far / len(totals))

    @cached_property
    def p_value_mcnemar(self) -> float | None:
        """Compute the p-value of the exact McNemar test over tasks; None if a task was attempted more than once."""
        if not {*self.before, *self.after} <= {0.0, 1.0}:
            return None
        num_gained, num_changed = int((self.differences > 0).sum()), int(np.count_nonzero(self.differences))
        num_fewer = min(num_gained, num_changed - num_gained)
        return min(1.0, 2 * sum(math.comb(num_changed, num) for num in range(num_fewer + 1)) / 2**num_changed)

    @property
    def is_different(self) -> bool:
        return self.p_value <= LEVEL


def choose_unit(clusters: Sequence[str]) -> Literal["repository", "task"]:
    """Choose the unit that statistics treat as independent: repository or, with fewer than `MIN_CLUSTERS` of these, task."""
    return "repository" if len(set(clusters)) >= MIN_CLUSTERS else "task"


def sum_units(values: NDArray[np.float64], clusters: Sequence[str]) -> NDArray[np.float64]:
    """Sum the values of the tasks of each repository; return them unchanged if repositories are few: [tasks] → [units]."""
    if choose_unit(clusters) == "task":
        return values.round(DECIMALS)
    _, cluster = np.unique(list(clusters), return_inverse=True)
    return np.asarray(np.bincount(cluster, weights=values), np.float64).round(DECIMALS)


def flip_all(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the total of `sums` under every combination of signs."""
    patterns = np.arange(2 ** len(sums))[:, np.newaxis] >> np.arange(len(sums)) & 1
    return np.asarray(((1 - 2 * patterns) * sums).sum(axis=1).round(DECIMALS))


def draw_flips(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the total of `sums` under random combinations of signs, drawn with a fixed seed."""
    rng, pairs = np.random.default_rng(0), np.tile([1.0, -1.0], (min(BATCH, NUM_DRAWS), len(sums), 1))
    totals = [(rng.permuted(pairs, axis=-1)[..., 0] * sums).sum(axis=1) for _ in range(0, NUM_DRAWS, BATCH)]
    return np.concatenate(totals)[:NUM_DRAWS].round(DECIMALS)
