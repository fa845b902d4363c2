"""Families of samples: neighbours of one group that start with the same tokens and share one copy of them in a forward pass."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from turnsmith.types import Sample


@dataclass(frozen=True)
class Family:
    """Adjacent samples that share one copy of their first tokens. A sample that shares nothing is a family of its own.

    Example: the token ids `[5, 6, 7, 1]` and `[5, 6, 7, 2, 3]` are a family with `prefix=3` and `suffixes=[1, 2]`.
    """

    prefix: int
    """Number of shared tokens; 0 in a family of one sample."""
    suffixes: list[int]
    """Number of further tokens of each sample."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens, with the shared ones counted once."""
        return self.prefix + sum(self.suffixes)


def find_families(samples: Sequence[Sample]) -> list[Family]:
    """Split samples, in their order, into the families with the smallest total number of tokens."""
    lengths = [len(sample) for sample in samples]
    common = [common_prefix(*neighbours) for neighbours in pairwise(samples)]
    families = []
    for start, end in pairwise(cut(common, len(samples))):
        prefix = min(common[start : end - 1], default=0)
        families.append(Family(prefix, [length - prefix for length in lengths[start:end]]))
    return families


def count_tokens(samples: Sequence[Sample]) -> int:
    """Count the tokens of adjacent samples, with those that a family shares counted once."""
    return sum(family.num_tokens for family in find_families(samples))


def common_prefix(a: Sample, b: Sample) -> int:
    """Return the number of equal tokens at the start of two samples of one group; 0 for samples of different groups."""
    if a.group_id != b.group_id:
        return 0
    shorter = min(len(a), len(b))
    differs = a.token_ids[:shorter] != b.token_ids[:shorter]
    return int(differs.argmax()) if differs.any() else shorter


def cut(common: Sequence[int], num_samples: int) -> list[int]:
    """Return the borders of families, from 0 to `num_samples`, that save the most tokens, by dynamic programming.

    `common[i]` is the number of tokens common to samples i and i + 1. A family saves its prefix once for each further sample.
    """
    saved, starts = [0], [0]
    for end in range(1, num_samples + 1):
        best, prefix = (saved[end - 1], end - 1), math.inf
        for start in range(end - 2, -1, -1):
            prefix = min(prefix, common[start])
            if not prefix:
                break
            best = max(best, (saved[start] + int(prefix) * (end - 1 - start), start))
        saved.append(best[0])
        starts.append(best[1])
    borders = [num_samples]
    while borders[-1]:
        borders.append(starts[borders[-1]])
    return borders[::-1]


def place(families: Sequence[Family]) -> np.ndarray:
    """Return, for each token of the samples laid end to end, its index in the row that holds each shared prefix once: int64.

    The row holds, for each family, the prefix and then the suffixes. Example: one family with `prefix=2` and `suffixes=[1, 2]`
    gives `[0, 1, 2, 0, 1, 3, 4]`.
    """
    parts, end = [np.empty(0, np.int64)], 0
    for family in families:
        prefix = np.arange(end, end := end + family.prefix)
        for suffix in family.suffixes:
            parts += [prefix, np.arange(end, end := end + suffix)]
    return np.concatenate(parts)
