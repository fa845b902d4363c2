"""Replacement of spans in a text or in bytes."""

from collections.abc import Iterable
from typing import AnyStr, NamedTuple


class Edit(NamedTuple):
    """Replacement of a span of characters."""

    start: int
    end: int
    text: str


def replace_spans(text: AnyStr, edits: Iterable[tuple[int, int, AnyStr]]) -> AnyStr:
    """Replace `text[start:end]` for each `(start, end, new)`; spans must not overlap."""
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = text[:start] + new + text[end:]
    return text
