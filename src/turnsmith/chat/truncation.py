"""Observations cut to a token budget: head and tail kept, the cut stated."""

from typing import TYPE_CHECKING

from turnsmith.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_NOTICE = "\n[... {} tokens cut ...]\n"
_MAX_DIGITS = 9


def truncate(text: str, max_tokens: int, tokenizer: "PreTrainedTokenizerBase") -> str:
    """The text itself, or its head and tail around a notice of the cut, in at most `max_tokens` tokens.

    The same text, budget and tokenizer give the same result.
    """
    spans = _token_spans(text, tokenizer)
    if len(spans) <= max_tokens:
        return text
    check_budget(max_tokens, tokenizer)
    num_kept = max_tokens - _notice_tokens(tokenizer)
    shorter = _cut(text, spans, num_kept)
    # A cut inside a word can give the pieces more tokens than they had in the whole, so the result is counted again.
    while num_kept and (excess := len(_token_spans(shorter, tokenizer)) - max_tokens) > 0:
        num_kept = max(num_kept - excess, 0)
        shorter = _cut(text, spans, num_kept)
    return shorter


def check_budget(max_tokens: int, tokenizer: "PreTrainedTokenizerBase") -> None:
    """Raise UsageError where a budget cannot hold even the notice of a cut."""
    needed = _notice_tokens(tokenizer)
    if max_tokens < needed:
        raise UsageError(f"max_observation_tokens {max_tokens} is too small: the notice of a cut alone takes {needed}")


def _notice_tokens(tokenizer: "PreTrainedTokenizerBase") -> int:
    """Most tokens that a notice can take: one for each digit."""
    return len(_token_spans(_NOTICE.format(""), tokenizer)) + _MAX_DIGITS


def _cut(text: str, spans: list[tuple[int, int]], num_kept: int) -> str:
    """Keep about `num_kept` tokens of the text, the larger half in front; never cut inside a character."""
    num_tail = num_kept // 2
    num_head = num_kept - num_tail
    head = text[: spans[num_head][0]]
    tail = text[spans[-num_tail - 1][1] :]
    return head + _NOTICE.format(len(spans) - num_kept) + tail


def _token_spans(text: str, tokenizer: "PreTrainedTokenizerBase") -> list[tuple[int, int]]:
    """Character range of each token; special tokens in the text count as the characters they are."""
    encoding = tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
    return encoding["offset_mapping"]
