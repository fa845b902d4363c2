"""Is the sampler the policy? If not, every importance ratio is wrong (paper §5.2).

Log-probs of engine and trainer must agree. That says nothing of filters, since a sampled token has the same log-prob with them.
But tokens of the policy are on average as surprising as its distributions are uncertain: mean −log p is their entropy. A filter
or a low temperature makes them less surprising, a high temperature more. Trajectories are drawn from all of the iteration: a
choice that knows the rewards, as that of the groups with signal, would itself shift the mean.
"""

import math
import random
from collections.abc import Sequence

import numpy as np

from turnsmith.algo.algorithm import Metrics
from turnsmith.algo.packing import pack
from turnsmith.config import GapConfig, StageConfig
from turnsmith.errors import TrainingError
from turnsmith.rollouts.samples import to_sample
from turnsmith.training.base import Surprisal, Trainer
from turnsmith.types import Sample, Trajectory

NUM_ERRORS = 4
"""Standard errors that may be chance."""
SKEW_NATS = 40.0
"""So much more may be: a few rare tokens, each worth some ten nats, make the sum uneven."""


def measure_gap(samples: Sequence[Sample], bounds: GapConfig) -> float:
    """Mean |difference| between the log-probs of trainer and engine over loss tokens. Raises TrainingError past `stop`."""
    gaps = [abs(s.old_logprobs - s.sampled_logprobs)[s.loss_mask] for s in samples if s.old_logprobs is not None]
    gap = float(np.concatenate(gaps).mean(dtype=np.float64))
    if gap > bounds.stop:
        raise TrainingError(
            f"engine and trainer log-probs differ by {gap:.2g} per token on average, past logprob_gap.stop {bounds.stop}: "
            "the engine does not sample from the policy"
        )
    return gap


async def measure_filter(
    trainer: Trainer, trajectories: Sequence[Trajectory], stage: StageConfig, bounds: GapConfig, seed: int
) -> Metrics:
    """How surprising some trajectories are, beside the entropy of the policy. Raises TrainingError past `filter_stop`."""
    sampled = [trajectory for trajectory in trajectories if trajectory.sampled.any()]
    chosen = random.Random(seed).sample(sampled, min(bounds.filter_trajectories, len(sampled)))
    if not chosen:
        return {}
    samples = [to_sample(trajectory, advantage=0.0) for trajectory in chosen]
    told = await trainer.surprisal(pack(samples, stage.optimizer.max_tokens_per_micro_batch))
    share = find_filter(told)
    if abs(share) > bounds.filter_stop:
        raise TrainingError(f"{describe_filter(share)}, past logprob_gap.filter_stop {bounds.filter_stop}")
    return {
        "sampler/surprisal_mean": told.sampled / told.num_tokens,
        "sampler/entropy_mean": told.expected / told.num_tokens,
        "sampler/filter_share": share,
    }


def find_filter(told: Surprisal) -> float:
    """The share of the entropy by which sampled tokens are surely more surprising than the policy's; below 0: less."""
    excess = told.sampled - told.expected
    sure = max(0.0, abs(excess) - NUM_ERRORS * math.sqrt(told.variance) - SKEW_NATS)
    return math.copysign(sure / told.expected, excess) if sure else 0.0


def describe_filter(share: float) -> str:
    """What a share of `find_filter` means."""
    more = "more" if share > 0 else "less"
    return (
        f"what the engine samples is at least {abs(share):.0%} {more} surprising than the policy's own tokens would be: "
        "a filter (top_p, top_k, min_p) or another temperature is at work in it"
    )


def list_warnings(metrics: Metrics, bounds: GapConfig) -> list[str]:
    """What of an iteration is past a bound that warns."""
    gap, share = metrics.get("logprob_gap/mean", 0.0), metrics.get("sampler/filter_share", 0.0)
    gaps = [f"the log-prob gap is past logprob_gap.warn {bounds.warn}"] if gap > bounds.warn else []
    return gaps + ([describe_filter(share)] if abs(share) > bounds.filter_warn else [])
