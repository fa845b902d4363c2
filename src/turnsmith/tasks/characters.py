"""Texts without halves of characters: JSON may hold lone surrogates, which no UTF-8 file and no tokenizer takes."""

import re
from collections.abc import Sequence
from typing import Any

HALF = re.compile("[\ud800-\udfff]")
ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")
"""The beginning of a half, or of a whole pair, in the text of JSON."""


def mend(value: Any) -> Any:
    """Put U+FFFD in the place of each half of a character in plain JSON."""
    if isinstance(value, str):
        return HALF.sub("\ufffd", value)
    if isinstance(value, dict):
        return {mend(name): mend(held) for name, held in value.items()}
    return [mend(held) for held in value] if isinstance(value, list) else value


def describe_mended(names: Sequence[str]) -> str:
    """Count the tasks whose texts were mended, and name one."""
    return f"{len(names):,} had halves of characters (lone surrogates), which are U+FFFD now, e.g. {names[0]}"
