"""Drill: repeated sequences of random symbols, which teach a model to copy within minutes.

Symbols are drawn without replacement. With repeats a symbol's successor is ambiguous, and the model does not learn to copy. Each
symbol that the policy must ever copy takes part, because reading does not teach the others later. About 300 symbols take 300
steps; a thousand symbols were not learned in 1,100.
"""

import random
from collections.abc import Callable

from tiny_base.imitation import imitate, make_sample
from turnsmith.training.local import LocalTrainer
from turnsmith.types import Sample

LONGEST = (32, 80)
"""Longest sequence before its repetition, for each level."""
BATCH_SIZE = 48
SMOOTHING = 0.95
PASSED_NLL = 0.12
"""Smoothed negative log-likelihood of a repeated symbol at which a level ends."""
SHORTEST = 8


def run_drill(trainer: LocalTrainer, symbols: list[int], seed: int, say: Callable[[str], None]) -> None:
    """Train all levels in order."""
    rng = random.Random(seed)
    for longest in LONGEST:
        drill_level(trainer, symbols, longest, rng, say)


def drill_level(
    trainer: LocalTrainer, symbols: list[int], longest: int, rng: random.Random, say: Callable[[str], None]
) -> None:
    """Train one level until the smoothed loss reaches `PASSED_NLL`."""
    nll = 7.0
    while nll > PASSED_NLL:
        samples = [draw_repeat(symbols, longest, rng) for _ in range(BATCH_SIZE)]
        nll = SMOOTHING * nll + (1 - SMOOTHING) * imitate(trainer, samples, 8_192)
        if trainer.num_steps % 50 == 0:
            say(f"drill {len(symbols)} symbols × {longest}: step {trainer.num_steps}, nll {nll:.3f}")


def draw_repeat(symbols: list[int], longest: int, rng: random.Random) -> Sample:
    """Return a sequence and its rotation, such as `[a, b, c, b, c, a]`; the loss covers predictable symbols of the rotation."""
    first = rng.sample(symbols, rng.randint(SHORTEST, longest))
    start = rng.randrange(len(first))
    second = first[start:] + first[:start]
    is_known = [True] * len(second)
    is_known[0] = is_known[(len(first) - start) % len(first)] = False  # the start and the wrap are random
    return make_sample(first + second, [False] * len(first) + is_known)
