"""Honest statistics of evaluation: Pass@1 with its error over runs, unbiased pass@k, paired comparison of two checkpoints."""

import math
import statistics
from collections.abc import Sequence

from scipy.stats import wilcoxon


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


def paired_p_value(before: Sequence[float], after: Sequence[float]) -> float:
    """Two-sided Wilcoxon signed-rank test over tasks; the two are parallel resolve rates. 1 where nothing differs."""
    differences = [b - a for a, b in zip(before, after, strict=True)]
    if not any(differences):
        return 1.0
    return float(wilcoxon(differences, zero_method="zsplit").pvalue)
