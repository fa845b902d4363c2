"""Spans are pairs of numbers, first and last."""


def merge(spans):
    """The spans in order, those that overlap or touch made one."""
    merged = []
    for first, last in sorted(spans):
        if last < first:
            raise ValueError(f"a span that ends before it begins: {first} to {last}")
        if merged and first < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def length(spans):
    """How much the spans cover together."""
    return sum(last - first for first, last in merge(spans))


def _unused(spans):
    return len(spans)
