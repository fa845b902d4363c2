"""Correction of a comparison whose checkpoints were chosen as the best of several that were evaluated on the same tasks.

The best of n equal checkpoints seems better than it is, because its chance results were the highest. The p-value is the
single-step adjusted p-value of the maximum statistic (Westfall and Young 1993, Resampling-Based Multiple Testing, §2.3). The
gain is estimated on tasks that took no part in the choice. This is algorithm 3 of Tsamardinos, Greasidou and Borboudakis
2018, Bootstrapping the out-of-sample predictions, Machine Learning 107.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from turnsmith.recipes.stats import DECIMALS, sum_units

NUM_PERMUTATIONS = 9_999
"""Number of random permutations of the checkpoints within each unit."""
NUM_RESAMPLES = 2_000
"""Number of bootstrap resamples of the units."""
BATCH = 500
"""Number of permutations or resamples that are held in memory at once."""


@dataclass(frozen=True)
class ChosenRates:
    """Rates of the checkpoints among which the best was chosen, on the same tasks. A checkpoint has one rate per task, 0 to 1."""

    before: Sequence[Sequence[float]]
    """Rates of the first checkpoint or, if it was chosen, of all that it was chosen among."""
    after: Sequence[Sequence[float]]
    """Rates of the second checkpoint or, if it was chosen, of all that it was chosen among."""
    clusters: Sequence[str]
    """Repository of each task. Units are repositories or, if these are few, tasks, as in `PairedRates`."""

    @cached_property
    def sums(self) -> NDArray[np.float64]:
        """Sum of rates, float64 [units, checkpoints]: those of `before`, then those of `after`."""
        return np.stack([sum_units(np.asarray(each), self.clusters) for each in (*self.before, *self.after)], axis=1)

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """Number of tasks of each unit, float64 [units]."""
        return sum_units(np.ones(len(self.clusters)), self.clusters)

    @property
    def num_compared(self) -> int:
        """Number of pairs of checkpoints from which the choice took one."""
        return len(self.before) * len(self.after)

    def find_p_value(self, first: int, second: int) -> float:
        """Compute the adjusted p-value of the difference between `before[first]` and `after[second]`, two-sided.

        If all checkpoints resolve each unit equally often, they can be permuted within each unit. The p-value is the share of
        permutations in which any pair differs at least as much. So one of all pairs is significant by chance in at most 5 %.
        """
        totals = self.sums.sum(axis=0)
        observed = abs(totals[len(self.before) + second] - totals[first]).round(DECIMALS)
        rng = np.random.default_rng(0)
        num_as_far = sum(
            int(
                np.count_nonzero(self._find_largest(rng.permuted(np.tile(self.sums, (num, 1, 1)), axis=-1)) >= observed)
            )
            for num in split_draws(NUM_PERMUTATIONS)
        )
        return (1 + num_as_far) / (1 + NUM_PERMUTATIONS)

    @cached_property
    def gain(self) -> float | None:
        """Mean difference, after minus before, on units that took no part in the choice; None if there is one unit only.

        Each resample draws units with replacement and chooses the best checkpoint on them. Both sides are then measured on the
        units that were not drawn.
        """
        rng, num_units, gains = np.random.default_rng(0), len(self.sizes), []
        for num in split_draws(NUM_RESAMPLES):
            counts = rng.multinomial(num_units, np.full(num_units, 1 / num_units), size=num)
            gains.append(self._measure_outside(counts[(counts == 0).any(axis=1)]))
        found = np.concatenate(gains)
        return float(found.mean()) if len(found) else None

    def _find_largest(self, permuted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Find the largest absolute difference of any pair: [permutations, units, checkpoints] → [permutations]."""
        before, after = np.split(permuted.sum(axis=1), [len(self.before)], axis=1)
        return np.asarray(np.abs(after[:, np.newaxis] - before[:, :, np.newaxis]).max(axis=(1, 2)).round(DECIMALS))

    def _measure_outside(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Choose on the drawn units, and measure on the others: [resamples, units] → [resamples]."""
        inside, is_outside = (counts @ self.sums).round(DECIMALS), (counts == 0).astype(np.float64)
        outside = is_outside @ self.sums / (is_outside @ self.sizes)[:, np.newaxis]
        rows, split = np.arange(len(counts)), len(self.before)
        first, second = inside[:, :split].argmax(axis=1), split + inside[:, split:].argmax(axis=1)
        return np.asarray(outside[rows, second] - outside[rows, first])


def split_draws(num: int) -> list[int]:
    """Split a number of draws into batches: 1,200 → 500, 500, 200."""
    return [min(BATCH, num - start) for start in range(0, num, BATCH)]
