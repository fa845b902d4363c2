"""Truncation of observations to a token budget, counted by a tokenizer or estimated from bytes.

Head and tail are kept, and a notice between them gives the number of characters that were cut. It counts characters, not
tokens, so the middle of a long text need not be tokenised.
"""

from typing import TYPE_CHECKING

from turnsmith.errors import UsageError
from turnsmith.types import BYTES_PER_TOKEN
from turnsmith.types.conversations import encode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NOTICE = "\n[... {} characters cut ...]\n"
_MAX_DIGITS = 9
_NOTICE_BYTES = len(NOTICE.format("")) + _MAX_DIGITS
"""Maximum number of bytes of a truncation notice."""
_END_CHARACTERS = 8
"""Number of characters tokenised at each end of a long text, per token of the limit; tokens are rarely longer on average."""


def truncate(text: str, max_tokens: int, tokenizer: "PreTrainedTokenizerBase") -> str:
    """Shorten a text to at most `max_tokens` tokens: keep head and tail, and put a notice between them.

    The result is deterministic. A text with more than 16 characters per allowed token is always shortened.
    """
    if len(text) <= 2 * _END_CHARACTERS * max_tokens and _num_tokens(text, tokenizer) <= max_tokens:
        return text
    check_budget(max_tokens, tokenizer)
    num_kept = max_tokens - _notice_tokens(tokenizer)
    shorter = _cut(text, num_kept, max_tokens, tokenizer)
    # A cut inside a word can give the pieces more tokens than they had in the whole, so the result is counted again.
    while num_kept and (excess := _num_tokens(shorter, tokenizer) - max_tokens) > 0:
        num_kept = max(num_kept - excess, 0)
        shorter = _cut(text, num_kept, max_tokens, tokenizer)
    return shorter


def check_budget(max_tokens: int, tokenizer: "PreTrainedTokenizerBase") -> None:
    """Raise UsageError if `max_tokens` cannot hold the truncation notice."""
    _check_holds(max_tokens, _notice_tokens(tokenizer))


def _check_holds(max_tokens: int, needed: int) -> None:
    if max_tokens < needed:
        raise UsageError(
            f"max_observation_tokens {max_tokens} is too small: the notice of a truncation alone takes {needed}"
        )


def _cut(text: str, num_kept: int, max_tokens: int, tokenizer: "PreTrainedTokenizerBase") -> str:
    """Keep about `num_kept` tokens of a text, the larger half in front, with a notice between the halves."""
    num_tail = num_kept // 2
    reach = min(_END_CHARACTERS * max_tokens, len(text) // 2)
    first, last = text[:reach], text[len(text) - reach :]
    starts = [*(start for start, _ in _token_spans(first, tokenizer)), reach]
    ends = [0, *(end for _, end in _token_spans(last, tokenizer))]
    # Where an end has fewer tokens than are kept of it, it is kept whole.
    head, tail = first[: starts[: num_kept - num_tail + 1][-1]], last[ends[-num_tail - 1 :][0] :]
    return head + NOTICE.format(len(text) - len(head) - len(tail)) + tail


def _notice_tokens(tokenizer: "PreTrainedTokenizerBase") -> int:
    """Return the maximum number of tokens of a truncation notice, with one token per digit."""
    return _num_tokens(NOTICE.format(""), tokenizer) + _MAX_DIGITS


def _num_tokens(text: str, tokenizer: "PreTrainedTokenizerBase") -> int:
    return len(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))


def _token_spans(text: str, tokenizer: "PreTrainedTokenizerBase") -> list[tuple[int, int]]:
    """Return (start, end), the range of characters, of each token of a text. Names of special tokens are ordinary text."""
    encoding = tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
    return encoding["offset_mapping"]


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
    _check_holds(max_tokens, -(-_NOTICE_BYTES // BYTES_PER_TOKEN))
