"""Replacement of lone surrogates in texts of tasks. JSON allows these characters, but UTF-8 and tokenizers do not."""

import re
from typing import Any

SURROGATE = re.compile("[\ud800-\udfff]")
ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
"""Pattern of an escaped surrogate in JSON text, such as `\\ud83d`; only lines with a match are searched for lone ones."""


def mend(value: Any) -> Any:
    """Replace each lone surrogate in a JSON value by U+FFFD."""
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {mend(name): mend(held) for name, held in value.items()}
    return [mend(held) for held in value] if isinstance(value, list) else value
