"""Reading samples: a file window with a bug, and the edit that repairs it. The stream is endless and needs no sandbox.

They teach the policy to find the function and to write code from its docstring; episodes teach the tools. In step 3 the loss
covers all tokens. In step 4 it covers only the edit, and batches also contain episodes: edits alone made the policy forget.
"""

import random
from collections.abc import Iterator

from transformers import PreTrainedTokenizerFast

from tiny_base.imitation import make_sample
from tiny_base.lessons import find_body
from tiny_base.rehearsal import AGENT
from tiny_base.teacher import write_edit
from turnsmith.agent.expert.mistakes import spoil
from turnsmith.agent.tools.files import TextFile
from turnsmith.agent.tools.viewing import line_into_view, render_window
from turnsmith.synthesis.practice.functions import TRAIN_KINDS, Function
from turnsmith.synthesis.practice.repository import invent_word, make_module, write_module
from turnsmith.types import Sample

BLENDED_SHARE = 0.6
"""Share of modules with rules in random order, so that the policy learns rules instead of templates."""
DIFFICULTY = 0.6
"""Difficulty of the hardest module."""


def draw_turns(seed: int | str) -> Iterator[tuple[str, str]]:
    """Yield endless pairs of an observation and the turn with the edit."""
    rng = random.Random(f"reading {seed}")
    while True:
        kind = "blends" if rng.random() < BLENDED_SHARE else rng.choice(TRAIN_KINDS)
        module = make_module(kind, DIFFICULTY * rng.random(), rng)
        yield write_turn(write_module(module), rng.choice(module.functions), rng)


def write_turn(source: str, function: Function, rng: random.Random) -> tuple[str, str]:
    """Return a window on the module with one bug, and the turn that repairs it."""
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
    """Return a sample with every token but the first in the loss."""
    token_ids = tokenizer.encode(seen + turn, add_special_tokens=False)
    return make_sample(token_ids, [False] + [True] * (len(token_ids) - 1))


def to_edit_sample(seen: str, turn: str, tokenizer: PreTrainedTokenizerFast) -> Sample:
    """Return a sample with only the turn in the loss."""
    before, after = (tokenizer.encode(text, add_special_tokens=False) for text in (seen, turn))
    return make_sample(before + after, [False] * len(before) + [True] * len(after))
