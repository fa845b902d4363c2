"""Reading: file windows with a bug, and the edit that mends it. Endless, never the same twice, and no sandbox is needed.

This is where the policy learns which function is meant, and what code follows from its docstring; episodes teach the tools.
First all of it is to be predicted, then, mixed with episodes, only the edit: alone, that taught edits and let all else go.
"""

import random
from collections.abc import Iterator

from transformers import PreTrainedTokenizerFast

from tiny_base.imitation import make_sample
from tiny_base.lessons import find_body
from tiny_base.rehearsal import AGENT
from tiny_base.teacher import spoil, write_edit
from turnsmith.agent.tools.files import TextFile
from turnsmith.agent.tools.viewing import line_into_view, render_window
from turnsmith.synthesis.practice.functions import TRAIN_KINDS, Function
from turnsmith.synthesis.practice.repository import invent_word, make_module, write_module
from turnsmith.types import Sample

BLENDED_SHARE = 0.6
"""Share of modules whose functions are rules of any order, so that rules are learned, not templates."""
DIFFICULTY = 0.6
"""Of the hardest module."""


def draw_turns(seed: int | str) -> Iterator[tuple[str, str]]:
    """What is seen, and the edit that follows."""
    rng = random.Random(f"reading {seed}")
    while True:
        kind = "blends" if rng.random() < BLENDED_SHARE else rng.choice(TRAIN_KINDS)
        module = make_module(kind, DIFFICULTY * rng.random(), rng)
        yield write_turn(write_module(module), rng.choice(module.functions), rng)


def write_turn(source: str, function: Function, rng: random.Random) -> tuple[str, str]:
    """A window on the module with one function spoiled, and the turn that mends it."""
    def_line, first, last = find_body(source, function.name)
    lines, path = source.rstrip("\n").split("\n"), f"{invent_word(rng)}/{invent_word(rng)}.py"
    body = lines[first - 1 : last]
    lines[first - 1 : last] = spoil(body, rng)
    window = render_window(
        TextFile(f"/testbed/{path}", "\n".join(lines)),
        line_into_view(def_line, len(lines), AGENT.window_lines),
        AGENT.window_lines,
    )
    seen = f"Find {function.name}.\nLook at it.\nopen ./{path} {def_line}\n{window}\n"
    return seen, f"Fix it.\n```command\n{write_edit(first, last, body)}\n```"


def to_reading_sample(seen: str, turn: str, tokenizer: PreTrainedTokenizerFast) -> Sample:
    """Every token but the first is to be predicted."""
    token_ids = tokenizer.encode(seen + turn, add_special_tokens=False)
    return make_sample(token_ids, [False] + [True] * (len(token_ids) - 1))


def to_edit_sample(seen: str, turn: str, tokenizer: PreTrainedTokenizerFast) -> Sample:
    """The turn is to be predicted, what was seen is not."""
    before, after = (tokenizer.encode(text, add_special_tokens=False) for text in (seen, turn))
    return make_sample(before + after, [False] * len(before) + [True] * len(after))
