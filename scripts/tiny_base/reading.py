"""Reading: modules of practice packages with a bug each, as a file window shows them, and what would repair it.

Endless and never the same twice. This is where the policy learns to find what a function ought to do, and which code follows from
it. It needs no sandbox, and leaves nothing to learn by heart.
"""

import random
from collections.abc import Iterator

from transformers import PreTrainedTokenizerFast

from tiny_base.lessons import find_body
from tiny_base.teacher import recall, spoil, write_edit
from turnsmith.synthesis.practice.functions import Function
from turnsmith.synthesis.practice.making import PracticeSpec, draw_repositories
from turnsmith.types import Sample

DIFFICULTY = 0.5


def draw_texts(seed: int) -> Iterator[str]:
    """Modules of the `base` split, each with its repair."""
    rng = random.Random(f"reading {seed}")
    for repository in draw_repositories(PracticeSpec("base", 0, DIFFICULTY, seed)):
        for module in repository.modules:
            source = repository.files[f"{repository.name}/{module.name}.py"]
            yield write_repair(source, rng.choice(module.functions), rng)


def write_repair(source: str, function: Function, rng: random.Random) -> str:
    """The module with a spoiled function, and the turn that mends it."""
    _, first, last = find_body(source, function.name)
    lines = source.split("\n")
    body = lines[first - 1 : last]
    broken = number_lines("\n".join([*lines[: first - 1], *spoil(body, rng), *lines[last:]]))
    thought, command = recall(function.name, function.sentence), write_edit(first, last, body)
    return f"{broken}\n{thought}\n```command\n{command}\n```"


def number_lines(text: str) -> str:
    """`1:first line`, as a file window has it."""
    return "\n".join(f"{number}:{line}" for number, line in enumerate(text.split("\n"), 1))


def to_reading_sample(text: str, tokenizer: PreTrainedTokenizerFast) -> Sample:
    """Every token but the first is to be predicted."""
    token_ids = tokenizer.encode(text, add_special_tokens=False)
    size = len(token_ids)
    return Sample("reading", token_ids, [False] + [True] * (size - 1), [0.0] * size, [1.0] * size)
