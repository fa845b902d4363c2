"""Draws that nobody can foretell."""

import random
from typing import TypeVar

T = TypeVar("T")

CHANCE = random.SystemRandom()


def sample(items: list[T], most: int) -> list[T]:
    """As many by chance, or all where there are fewer."""
    return CHANCE.sample(items, min(len(items), most))
