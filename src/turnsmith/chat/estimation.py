"""Truncation of observations by estimated tokens, from their bytes, without a tokenizer."""

from turnsmith.chat.truncation import NOTICE
from turnsmith.errors import UsageError
from turnsmith.types import BYTES_PER_TOKEN
from turnsmith.types.estimates import encode

_NOTICE_BYTES = len(NOTICE.format("")) + 9
"""Maximum number of bytes of a truncation notice, whose number has at most nine digits."""


def truncate_by_bytes(text: str, max_tokens: int) -> str:
    """Shorten a text to at most `max_tokens` estimated tokens: keep head and tail, and put a notice between them."""
    encoded, max_bytes = encode(text), max_tokens * BYTES_PER_TOKEN
    if len(encoded) <= max_bytes:
        return text
    check_bytes(max_tokens)
    num_kept = max_bytes - _NOTICE_BYTES
    num_tail = num_kept // 2
    head = encoded[: num_kept - num_tail].decode(errors="ignore")
    tail = encoded[len(encoded) - num_tail :].decode(errors="ignore")
    return head + NOTICE.format(len(text) - len(head) - len(tail)) + tail


def check_bytes(max_tokens: int) -> None:
    """Raise UsageError if `max_tokens` cannot hold the truncation notice."""
    needed = -(-_NOTICE_BYTES // BYTES_PER_TOKEN)
    if max_tokens < needed:
        raise UsageError(
            f"max_observation_tokens {max_tokens} is too small: the notice of a truncation alone takes {needed}"
        )
