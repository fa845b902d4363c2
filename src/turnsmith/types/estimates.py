"""Tokens of texts where no tokenizer is at hand: four bytes of UTF-8 count as one, a rule of thumb for English and code."""

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """`"a few words"` → 3."""
    return -(-len(encode(text)) // BYTES_PER_TOKEN)


def encode(text: str) -> bytes:
    """As UTF-8; half a pair of surrogates, which it cannot hold, becomes a question mark."""
    return text.encode(errors="replace")
