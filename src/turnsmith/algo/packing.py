"""Packing of samples into micro-batches: token sequences end to end in one row, without padding."""

import random
from itertools import groupby, pairwise
from typing import Literal, TypeVar

from turnsmith.algo.prefixes import count_tokens
from turnsmith.types import MicroBatch, Sample

T = TypeVar("T")


def make_batches(
    samples: list[Sample],
    batch_size: int,
    *,
    unit: Literal["trajectories", "sequences"],
    max_tokens: int,
    seed: int,
    share_prefixes: bool = False,
) -> list[list[MicroBatch]]:
    """Make optimizer batches of `batch_size` trajectories or, if `unit` is `sequences`, of `batch_size` packed micro-batches.

    With `share_prefixes` the samples of a group stay together, except those at the border of two batches.
    """
    if unit == "sequences":
        return split_batches(pack(samples, max_tokens, share_prefixes=share_prefixes), batch_size, seed)
    batches = (split_by_group if share_prefixes else split_batches)(samples, batch_size, seed)
    return [pack(batch, max_tokens, share_prefixes=share_prefixes) for batch in batches]


def pack(samples: list[Sample], max_tokens: int, *, share_prefixes: bool = False) -> list[MicroBatch]:
    """Pack samples, longest first, into micro-batches of at most `max_tokens`; a longer sample gets its own micro-batch.

    With `share_prefixes` the samples of a group stay together as far as the limit allows, and the tokens with which they all
    start count once.
    """
    parts = split_groups(samples, max_tokens) if share_prefixes else [[sample] for sample in samples]
    sizes = [count_tokens(part) if share_prefixes else len(part[0]) for part in parts]
    packed = fill_bins(parts, sizes, max_tokens)
    return [MicroBatch([s for part in each for s in part], share_prefixes=share_prefixes) for each in packed]


def fill_bins(units: list[T], sizes: list[int], capacity: int) -> list[list[T]]:
    """Put units, largest first, into the first bin with room; a unit above the capacity gets its own bin."""
    bins: list[list[T]] = []
    room: list[int] = []
    for at in sorted(range(len(units)), key=lambda at: -sizes[at]):
        index = next((index for index, free in enumerate(room) if free >= sizes[at]), len(bins))
        if index == len(bins):
            bins.append([])
            room.append(capacity)
        bins[index].append(units[at])
        room[index] -= sizes[at]
    return bins


def split_groups(samples: list[Sample], max_tokens: int) -> list[list[Sample]]:
    """Split samples into parts of one group, each of at most `max_tokens` with shared tokens counted once, or of one sample.

    Samples with a long common prefix become neighbours.
    """
    parts: list[list[Sample]] = []
    ordered = sorted(samples, key=lambda sample: (sample.group_id, sample.token_ids.tobytes()))
    for _, group in groupby(ordered, key=lambda sample: sample.group_id):
        part: list[Sample] = []
        for sample in group:
            if part and count_tokens([*part, sample]) > max_tokens:
                parts.append(part)
                part = []
            part.append(sample)
        parts.append(part)
    return parts


def split_batches(units: list[T], batch_size: int, seed: int) -> list[list[T]]:
    """Shuffle units with the seed and split them into the fewest batches of at most `batch_size` units.

    Batch sizes differ by at most one, because a small last batch would have as much influence as a full one.
    """
    shuffled = list(units)
    random.Random(seed).shuffle(shuffled)
    num_batches = -(-len(shuffled) // batch_size)
    return [shuffled[first::num_batches] for first in range(num_batches)]


def split_by_group(samples: list[Sample], batch_size: int, seed: int) -> list[list[Sample]]:
    """Shuffle groups with the seed and split their samples into the fewest batches of at most `batch_size` samples.

    Batch sizes differ by at most one, so a group at the border of two batches is split.
    """
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.group_id, []).append(sample)
    shuffled = list(groups.values())
    random.Random(seed).shuffle(shuffled)
    in_order = [sample for group in shuffled for sample in group]
    num_batches = -(-len(samples) // batch_size)
    borders = [len(samples) * index // num_batches for index in range(num_batches + 1)] if samples else []
    return [in_order[start:end] for start, end in pairwise(borders)]
