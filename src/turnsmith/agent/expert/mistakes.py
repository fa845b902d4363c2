"""Mistakes that the expert makes and repairs. Fine-tuning does not imitate them, only their repair."""

import random
import re
from collections.abc import Sequence

NOT_CODE = re.compile(r"\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|(\"|')(?:\\.|(?!\1)[^\\\n])*\1|#[^\n]*", re.DOTALL)
"""Pattern of strings and comments, where a wrong name is no mistake that a test finds."""


def spoil(lines: Sequence[str], rng: random.Random) -> list[str]:
    """Return wrong code: another operator, or a name replaced by another name. Strings and comments stay as they are."""
    text = "\n".join(lines)
    code = NOT_CODE.sub(lambda found: " " * len(found[0]), text)
    operators = list(re.finditer(r" (\+|-|\*|<=|>=|<|>|==) ", code))
    names = list(re.finditer(r"\b[a-z]{3,}\b", code))
    if operators and rng.random() < 0.5:
        found = rng.choice(operators)
        sign = rng.choice([s for s in ("+", "-", "*", "<", ">") if s != found[1]])
        return (text[: found.start(1)] + sign + text[found.end(1) :]).split("\n")
    if len({name[0] for name in names}) < 2:
        end = len(code.rstrip())
        return f"{text[:end]}0{text[end:]}".split("\n") if end else [*lines]
    found = rng.choice(names)
    other = rng.choice([name[0] for name in names if name[0] != found[0]])
    return (text[: found.start()] + other + text[found.end() :]).split("\n")


def misspell(name: str, rng: random.Random) -> str:
    """Return a name with one letter left out or doubled. It does not begin the right name, which a search would then find."""
    position = rng.randrange(1, len(name) - 1) if len(name) > 2 else 0
    before, letter, after = name[:position], name[position], name[position + 1 :]
    leaves_out = len(name) > 3 and rng.random() < 0.5 and not name.startswith(before + after)
    return before + after if leaves_out else before + 2 * letter + after
