"""Is the sampler the policy? A gap between engine and trainer makes every importance ratio wrong (paper §5.2)."""

from collections.abc import Sequence

import numpy as np

from turnsmith.config import GapConfig
from turnsmith.errors import TrainingError
from turnsmith.types import Sample


def measure_gap(samples: Sequence[Sample]) -> float:
    """Mean absolute difference between the log-probs of engine and trainer, over loss tokens."""
    gaps = [abs(s.old_logprobs - s.sampled_logprobs)[s.loss_mask] for s in samples if s.old_logprobs is not None]
    return float(np.concatenate(gaps).mean(dtype=np.float64))


def check_gap(gap: float, bounds: GapConfig) -> None:
    """Sampler and policy must be one: past the bound the ratio means nothing (paper §5.2)."""
    if gap > bounds.stop:
        raise TrainingError(
            f"engine and trainer log-probs differ by {gap:.2g} per token on average, past logprob_gap.stop {bounds.stop}: "
            "the engine does not sample from the policy"
        )
