"""What a loss divides its sum over tokens by, counted over one optimizer batch, so that its micro-batches add up to it."""

from collections import Counter

from turnsmith.types import Sample


def batch_denominator(samples: list[Sample]) -> float:
    """Action tokens of the batch: every token weighs the same (paper §3.2, as the text has it)."""
    return float(sum(sample.num_loss_tokens for sample in samples))


def group_denominators(samples: list[Sample]) -> dict[str, float]:
    """Per trajectory: action tokens of its group times the number of groups, so groups weigh the same (after Eq. 8)."""
    tokens = Counter[str]()
    for sample in samples:
        tokens[sample.group_id] += sample.num_loss_tokens
    return {sample.trajectory_id: float(tokens[sample.group_id] * len(tokens)) for sample in samples}


def sequence_denominators(samples: list[Sample]) -> dict[str, float]:
    """Per trajectory: its own action tokens times the number of sequences, so sequences weigh the same."""
    return {sample.trajectory_id: float(sample.num_loss_tokens * len(samples)) for sample in samples}
