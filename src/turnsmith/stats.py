"""Honest statistics of evaluation: Pass@1 with its error over runs, unbiased pass@k, two checkpoints compared task by task."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, permutation_test, sem, t

LEVEL = 0.05
"""Two checkpoints are called different where p is at most this."""
MIN_CLUSTERS = 6
"""Fewer can be flipped in so few ways that p never comes down to the level (2 / 2⁵ = 0.06)."""
NUM_DRAWS = 99_999
"""Sign patterns that are tried where there are more; of fewer, all are."""
BATCH = 5_000
"""Sign patterns in memory at once."""
DECIMALS = 9
"""Sums that differ by less are equal."""


def pass_at_k(num_rollouts: int, num_resolved: int, k: int) -> float:
    """Unbiased probability that at least one of k rollouts resolves the task: 1 − C(n−c, k) / C(n, k).

    Two of four resolved, k = 2: 1 − C(2, 2) / C(4, 2) = 5/6. Raises ValueError where n < k.
    """
    if num_rollouts < k:
        raise ValueError(f"pass@{k} needs at least {k} rollouts, not {num_rollouts}")
    return 1.0 - math.comb(num_rollouts - num_resolved, k) / math.comb(num_rollouts, k)


def mean_and_sem(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error of the mean (sample deviation); the error of a single value is not known: NaN."""
    return float(np.mean(values)), float(sem(values)) if len(values) > 1 else math.nan


def share_interval(num: int, total: int) -> tuple[float, float]:
    """The exact (Clopper–Pearson) 95 % interval of a share: 0 of 60 → (0, 0.06)."""
    low, high = binomtest(num, total).proportion_ci()
    return float(low), float(high)


@dataclass(frozen=True)
class PairedRates:
    """What two checkpoints reached on the same tasks. The three are parallel."""

    before: Sequence[float]
    """Rate of each task, 0 to 1."""
    after: Sequence[float]
    """Rate of each task, 0 to 1."""
    clusters: Sequence[str]
    """Repository of each task: tasks of one rise and fall together."""

    @cached_property
    def differences(self) -> NDArray[np.float64]:
        """After minus before, of each task."""
        return np.subtract(self.after, self.before, dtype=np.float64)

    @property
    def means(self) -> tuple[float, float]:
        """Mean rate before and after."""
        return float(np.mean(self.before)), float(np.mean(self.after))

    @property
    def mean(self) -> float:
        """Mean difference over tasks."""
        return float(self.differences.mean())

    @property
    def flipped_by(self) -> Literal["repository", "task"]:
        """What is one witness: a repository, or where these are too few for any test, each task for itself."""
        return "repository" if len(set(self.clusters)) >= MIN_CLUSTERS else "task"

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """Sum of the differences of each witness."""
        return self._sum(self.differences)

    @cached_property
    def error(self) -> float:
        """Standard error of the mean difference over witnesses; of a single one it is not known: NaN."""
        residuals = self._sum(self.differences - self.mean)
        return float(sem(residuals) * len(residuals) / len(self.differences)) if len(residuals) > 1 else math.nan

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the mean difference by Student's t; None where no two tasks tell how far tasks differ."""
        if not self.error > 10**-DECIMALS:
            return None
        low, high = t.interval(1 - LEVEL, len(self.sums) - 1, loc=self.mean, scale=self.error)
        return float(low), float(high)

    @cached_property
    def p_value(self) -> float:
        """Two-sided sign-flip permutation test of the mean difference.

        Were the two the same, each witness's sum of differences could as well have the other sign. All patterns of signs are
        tried where they are few, else a seeded sample of them.
        """
        if len(self.sums) < 2 or not self.sums.any():
            return 1.0
        result = permutation_test(
            (self.sums,),
            lambda sums, axis: sums.sum(axis=axis).round(DECIMALS),
            permutation_type="samples",
            n_resamples=NUM_DRAWS,
            batch=BATCH,
            rng=0,
        )
        return float(result.pvalue)

    @cached_property
    def p_value_mcnemar(self) -> float | None:
        """Exact McNemar test, each task for itself; None where a task was attempted more than once."""
        if not {*self.before, *self.after} <= {0.0, 1.0}:
            return None
        num_gained, num_changed = int((self.differences > 0).sum()), int(np.count_nonzero(self.differences))
        return float(binomtest(num_gained, num_changed).pvalue) if num_changed else 1.0

    @property
    def is_different(self) -> bool:
        """Is the difference more than noise?"""
        return self.p_value <= LEVEL

    def _sum(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.flipped_by == "task":
            return values.round(DECIMALS)
        _, cluster = np.unique(list(self.clusters), return_inverse=True)
        return np.asarray(np.bincount(cluster, weights=values), np.float64).round(DECIMALS)
