"""Kinds of practice module. Two of them are held out: nothing is ever trained on them, and no other kind has their shapes."""

import random
from collections.abc import Callable

from turnsmith.synthesis.practice import functions
from turnsmith.synthesis.practice.functions import Function

Shape = Callable[[str, list[str], int, random.Random], Function]

SHAPES: dict[str, tuple[Shape, ...]] = {
    "ledgers": (functions.arithmetic,),
    "limits": (functions.clamped,),
    "choices": (functions.chosen,),
    "tallies": (functions.tallied,),
    "labels": (functions.joined,),
    "blends": (functions.blended,),
    "voyages": (functions.fenced,),
    "orchards": (functions.scaled_tally,),
}
"""The shapes of function that a kind of module holds."""

HELDOUT_KINDS = ("voyages", "orchards")
TRAIN_KINDS = tuple(kind for kind in SHAPES if kind not in HELDOUT_KINDS)
