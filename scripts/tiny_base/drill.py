"""The drill: sequences of random symbols that come twice. It forms the circuit that copies, which nothing else forms in minutes.

Symbols are drawn without replacement: with repeats, what follows a symbol would not be certain, and the circuit does not form.
All symbols that will ever be copied take part: one that is never drilled is suppressed, and reading does not mend that. Some 300
of them take 300 steps; with a thousand the circuit did not form in 1,100.
"""

import random
from collections.abc import Callable

from tiny_base.imitation import imitate, make_sample
from turnsmith.training.local import LocalTrainer
from turnsmith.types import Sample

LONGEST = (32, 80)
"""Longest sequence before it repeats, level by level."""
BATCH_SIZE = 48
SMOOTHING = 0.95
PASSED_NLL = 0.12
"""Mean negative log-likelihood of a repeated symbol at which a level is passed."""
SHORTEST = 8


def run_drill(trainer: LocalTrainer, symbols: list[int], seed: int, say: Callable[[str], None]) -> None:
    """Train level after level until each is passed."""
    rng = random.Random(seed)
    for longest in LONGEST:
        drill_level(trainer, symbols, longest, rng, say)


def drill_level(
    trainer: LocalTrainer, symbols: list[int], longest: int, rng: random.Random, say: Callable[[str], None]
) -> None:
    """Train one level until the smoothed loss says that it is passed."""
    nll = 7.0
    while nll > PASSED_NLL:
        samples = [draw_repeat(symbols, longest, rng) for _ in range(BATCH_SIZE)]
        nll = SMOOTHING * nll + (1 - SMOOTHING) * imitate(trainer, samples, 8_192)
        if trainer.num_steps % 50 == 0:
            say(f"drill {len(symbols)} symbols × {longest}: step {trainer.num_steps}, nll {nll:.3f}")


def draw_repeat(symbols: list[int], longest: int, rng: random.Random) -> Sample:
    """`[a, b, c, b, c, a]`: the second part starts anywhere in the first, and all of it but its start is to be predicted."""
    first = rng.sample(symbols, rng.randint(SHORTEST, longest))
    start = rng.randrange(len(first))
    second = first[start:] + first[:start]
    is_known = [True] * len(second)
    is_known[0] = is_known[(len(first) - start) % len(first)] = (
        False  # nothing says where it starts, nor where it wraps
    )
    return make_sample(first + second, [False] * len(first) + is_known)
