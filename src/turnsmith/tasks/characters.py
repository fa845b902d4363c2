"""Texts without lone surrogates, which JSON may hold, and which no UTF-8 file and no tokenizer takes."""

import re
from collections.abc import Sequence
from typing import Any

SURROGATE = re.compile("[\ud800-\udfff]")
ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")
"""The beginning of a surrogate, lone or of a pair, in the text of JSON."""


def mend(value: Any) -> Any:
    """Replace each lone surrogate in plain JSON with U+FFFD."""
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {mend(name): mend(held) for name, held in value.items()}
    return [mend(held) for held in value] if isinstance(value, list) else value


def describe_mended(names: Sequence[str]) -> str:
    """Count the tasks whose texts were mended, and name one."""
    number = "1 task" if len(names) == 1 else f"{len(names):,} tasks"
    return f"{number} held lone surrogates, now U+FFFD, e.g. {names[0]}"
