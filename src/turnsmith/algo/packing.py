"""Packing of samples into micro-batches: token sequences end to end in one row, without padding."""

import random
from typing import Literal, TypeVar

from turnsmith.types import MicroBatch, Sample

T = TypeVar("T")


def make_batches(
    samples: list[Sample], batch_size: int, *, unit: Literal["trajectories", "sequences"], max_tokens: int, seed: int
) -> list[list[MicroBatch]]:
    """Make optimizer batches of `batch_size` trajectories or, if `unit` is `sequences`, of `batch_size` packed micro-batches."""
    if unit == "sequences":
        return split_batches(pack(samples, max_tokens), batch_size, seed)
    return [pack(batch, max_tokens) for batch in split_batches(samples, batch_size, seed)]


def pack(samples: list[Sample], max_tokens: int) -> list[MicroBatch]:
    """Pack samples, longest first, into micro-batches of at most `max_tokens`; a longer sample gets its own micro-batch."""
    bins: list[list[Sample]] = []
    room: list[int] = []
    for sample in sorted(samples, key=len, reverse=True):
        index = next((index for index, free in enumerate(room) if free >= len(sample)), len(bins))
        if index == len(bins):
            bins.append([])
            room.append(max_tokens)
        bins[index].append(sample)
        room[index] -= len(sample)
    return [MicroBatch(samples=packed) for packed in bins]


def split_batches(units: list[T], batch_size: int, seed: int) -> list[list[T]]:
    """Shuffle units with the seed and split them into the fewest batches of at most `batch_size` units.

    Batch sizes differ by at most one, because a small last batch would have as much influence as a full one.
    """
    shuffled = list(units)
    random.Random(seed).shuffle(shuffled)
    num_batches = -(-len(shuffled) // batch_size)
    return [shuffled[first::num_batches] for first in range(num_batches)]
