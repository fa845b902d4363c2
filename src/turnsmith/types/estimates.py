"""Token estimates without a tokenizer: four UTF-8 bytes per token, a rule of thumb for English and code."""

BYTES_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text, e.g. `"a few words"` → 3."""
    return -(-len(encode(text)) // BYTES_PER_TOKEN)


def encode(text: str) -> bytes:
    """Encode a text as UTF-8; a lone surrogate becomes a question mark."""
    return text.encode(errors="replace")
