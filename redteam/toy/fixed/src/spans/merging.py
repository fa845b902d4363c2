"""Spans are pairs of numbers, first and last."""


def merge(spans):
    """Return the spans in order, with overlapping and touching ones merged."""
    merged = []
    for first, last in sorted(spans):
        if last < first:
            raise ValueError(f"a span that ends before it begins: {first} to {last}")
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def length(spans):
    """Return the total length that the spans cover."""
    return sum(last - first for first, last in merge(spans))


def _unused(spans):
    return len(spans)
