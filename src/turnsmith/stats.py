"""Honest statistics of evaluation: Pass@1 with its error over runs, unbiased pass@k, paired comparison of two checkpoints."""

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

MAX_PATTERNS = 2**12
"""Sign patterns that are all tried; of more, a sample is."""
NUM_DRAWS = 100_000
ROUNDING = 1e-9
"""Sums that differ by less are equal."""


def pass_at_k(num_rollouts: int, num_resolved: int, k: int) -> float:
    """Unbiased probability that at least one of k rollouts resolves the task: 1 − C(n−c, k) / C(n, k).

    Two of four resolved, k = 2: 1 − C(2, 2) / C(4, 2) = 5/6. Needs n ≥ k.
    """
    if num_rollouts < k:
        raise ValueError(f"pass@{k} needs at least {k} rollouts, not {num_rollouts}")
    return 1.0 - math.comb(num_rollouts - num_resolved, k) / math.comb(num_rollouts, k)


def mean_and_sem(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error of the mean (sample deviation); the error of a single value is not known: NaN."""
    if len(values) < 2:
        return statistics.fmean(values), math.nan
    return statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))


def paired_p_value(before: Sequence[float], after: Sequence[float], clusters: Sequence[str]) -> float:
    """Two-sided sign-flip permutation test of the mean difference; rates of tasks and the tasks' clusters are parallel.

    Were the two checkpoints the same, each cluster's sum of differences could as well have the other sign. Whole clusters are
    flipped, since tasks of one repository rise and fall together. All sign patterns up to 2¹², else a seeded sample of them.
    """
    sums = np.array(list(_sum_by_cluster(_differences(before, after), clusters).values()))
    observed = abs(sums.sum()) - ROUNDING
    if 2 ** len(sums) <= MAX_PATTERNS:
        patterns = np.array(list(itertools.product([-1, 1], repeat=len(sums))))
        return float((abs(patterns @ sums) >= observed).mean())
    patterns = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.int8), size=(NUM_DRAWS, len(sums)))
    return (1 + int((abs(patterns @ sums) >= observed).sum())) / (1 + NUM_DRAWS)


def paired_error(before: Sequence[float], after: Sequence[float], clusters: Sequence[str]) -> float:
    """Standard error of the mean difference over tasks, clustered; of a single cluster it is not known: NaN."""
    differences = _differences(before, after)
    mean = statistics.fmean(differences)
    sums = _sum_by_cluster([difference - mean for difference in differences], clusters).values()
    if len(sums) < 2:
        return math.nan
    return math.sqrt(len(sums) / (len(sums) - 1) * sum(s * s for s in sums)) / len(differences)


def _differences(before: Sequence[float], after: Sequence[float]) -> list[float]:
    return [b - a for a, b in zip(before, after, strict=True)]


def _sum_by_cluster(values: Sequence[float], clusters: Sequence[str]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value
    return sums
