"""Reading: sources of practice packages, endless and never the same twice, as files and as a file window shows them.

This is where the policy learns what code follows from which docstring. It needs no sandbox, and leaves nothing to learn by heart.
"""

import random
from collections.abc import Iterator

from transformers import PreTrainedTokenizerFast

from turnsmith.synthesis.practice.making import PracticeSpec, draw_repositories
from turnsmith.types import Sample

DIFFICULTY = 0.5


def draw_sources(seed: int) -> Iterator[str]:
    """Modules of the `base` split; every other one with line numbers."""
    rng = random.Random(f"reading {seed}")
    for repository in draw_repositories(PracticeSpec("base", 0, DIFFICULTY, seed)):
        for module in repository.modules:
            text = repository.files[f"{repository.name}/{module.name}.py"]
            yield number_lines(text) if rng.random() < 0.5 else text


def number_lines(text: str) -> str:
    """`1:first line`, as a file window has it."""
    return "\n".join(f"{number}:{line}" for number, line in enumerate(text.split("\n"), 1))


def to_reading_sample(text: str, tokenizer: PreTrainedTokenizerFast) -> Sample:
    """Every token but the first is to be predicted."""
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    size = len(token_ids)
    return Sample("reading", token_ids, [False] + [True] * (size - 1), [0.0] * size, [1.0] * size)
