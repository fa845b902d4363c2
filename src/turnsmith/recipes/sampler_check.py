"""Checks that the engine samples from the policy; otherwise every importance ratio is wrong (paper §5.2).

Three checks are made in each iteration:

- The log-probs of engine and trainer must agree. This check does not detect a filter such as top_p.
- The mean −log p of sampled tokens must equal the policy's mean entropy. A filter or a low temperature makes it smaller, a
  high temperature larger.
- The sampled tokens must not be much likelier under another temperature or a filter than under the plain policy. This
  log-likelihood ratio (the evidence) is summed over iterations, so that settings with a small effect are found too.

Trajectories are drawn from the whole iteration, because a selection by reward would shift the mean.
`turnsmith mismatch RUN` finds the cause of a difference.
"""

import math
import random
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from turnsmith.algo.algorithm import Metrics
from turnsmith.algo.packing import pack
from turnsmith.config import GapConfig, RunConfig, StageConfig
from turnsmith.errors import TrainingError
from turnsmith.recipes.context import Iteration
from turnsmith.rollouts.samples import to_sample
from turnsmith.runs.folder import write_json
from turnsmith.training.base import Surprisal, Trainer
from turnsmith.training.sampler_settings import ALTERNATIVES, VALUES, Alternative, find_best, least_evidence, pool
from turnsmith.types import Sample, Trajectory

NUM_TOKENS, MIN_TOKENS, SHARE = 8_192, 1_024, 0.1
"""Number of sampled tokens per iteration, from random trajectories, on which the engine's sampler settings are checked.

A small iteration checks the share `SHARE` of its tokens, at least `MIN_TOKENS`, so that the check costs little beside training.
"""
FALSE_ALARMS = 1e-4
"""Largest fraction of iterations in which the check wrongly warns that a correct engine uses another sampler setting."""
WARN_SHARE = 0.05
"""Difference between mean −log p and entropy, as a share of the entropy, above which the run warns."""
STOP_SHARE = 0.25
"""Difference between mean −log p and entropy, as a share of the entropy, above which the run stops."""
ALARM_NATS = least_evidence(len(ALTERNATIVES), FALSE_ALARMS)
"""log(likelihood of the tokens under a sampler setting / under the policy), in nats, above which the run warns of it."""
NUM_ERRORS = 4
"""Number of standard errors by which surprisal and entropy may differ by chance."""
SKEW_NATS = 40.0
"""Nats by which summed surprisal and entropy may differ by chance in addition, because of a few tokens of ten nats."""


def measure_gap(samples: Sequence[Sample], bounds: GapConfig) -> float:
    """Compute the mean |difference| of trainer's and engine's log-probs of loss tokens. Raises TrainingError above `stop`."""
    gaps = [abs(s.old_logprobs - s.sampled_logprobs)[s.loss_mask] for s in samples if s.old_logprobs is not None]
    gap = float(np.concatenate(gaps).mean(dtype=np.float64))
    if gap > bounds.stop:
        raise TrainingError(
            f"engine and trainer log-probs differ by {gap:.2g} per token on average, above logprob_gap.stop {bounds.stop}: "
            "the engine does not sample from the policy"
        )
    return gap


async def check_sampler(trainer: Trainer, trajectories: Sequence[Trajectory], iteration: Iteration) -> Metrics:
    """Check on random trajectories that the engine samples from the policy. Raises TrainingError if it clearly does not."""
    chosen = draw(trajectories, count_checked(trajectories), iteration.seed("sampler"))
    if not chosen:
        return {}
    measured = await measure_surprisal(trainer, chosen, iteration.stage)
    evidence = pool(iteration.read_previous_evidence(), measured.evidence, ALARM_NATS)
    write_json(iteration.files.evidence, {str(each): nats for each, nats in evidence.items()})
    return measure_filter(measured) | describe_evidence(evidence)


def count_checked(trajectories: Sequence[Trajectory]) -> int:
    """Count the sampled tokens of an iteration that are checked."""
    num_sampled = sum(int(trajectory.sampled.sum()) for trajectory in trajectories)
    return min(NUM_TOKENS, max(MIN_TOKENS, math.ceil(SHARE * num_sampled)))


def draw(trajectories: Sequence[Trajectory], num_tokens: int, seed: int) -> list[Trajectory]:
    """Draw trajectories at random until they hold `num_tokens` sampled tokens."""
    sampled = [trajectory for trajectory in trajectories if trajectory.sampled.any()]
    random.Random(seed).shuffle(sampled)
    before = accumulate((int(trajectory.sampled.sum()) for trajectory in sampled), initial=0)
    return [trajectory for trajectory, num in zip(sampled, before, strict=False) if num < num_tokens]


async def measure_surprisal(trainer: Trainer, trajectories: Sequence[Trajectory], stage: StageConfig) -> Surprisal:
    """Measure the tokens' surprisal and entropy, and log(likelihood under each sampler setting / under the policy)."""
    samples = [to_sample(trajectory, advantage=0.0) for trajectory in trajectories]
    return await trainer.surprisal(pack(samples, stage.optimizer.max_tokens_per_micro_batch))


def measure_filter(measured: Surprisal) -> Metrics:
    """Compare the surprisal (−log p) of sampled tokens with the entropy. Raises TrainingError above `STOP_SHARE`."""
    share = find_filter(measured)
    if abs(share) > STOP_SHARE:
        raise TrainingError(f"{describe_filter(share)}; the limit is {STOP_SHARE:.0%}")
    return {
        "sampler/surprisal_mean": measured.sampled / measured.num_tokens,
        "sampler/entropy_mean": measured.expected / measured.num_tokens,
        "sampler/filter_share": share,
    }


def describe_evidence(evidence: Mapping[Alternative, float]) -> Metrics:
    """Return as metrics, for temperature, top_p and so on, the likeliest value and its log-likelihood ratio in nats."""
    best = [find_best({each: evidence[each] for each in evidence if each.kind == kind}) for kind in VALUES if evidence]
    return {
        **{f"sampler/{each.kind}": each.value for each in best},
        **{f"sampler/{each.kind}_nats": evidence[each] for each in best},
    }


def find_filter(measured: Surprisal) -> float:
    """Return surprisal minus entropy as a share of the entropy, after subtracting the part that chance explains."""
    excess = measured.sampled - measured.expected
    sure = max(0.0, abs(excess) - NUM_ERRORS * math.sqrt(measured.variance) - SKEW_NATS)
    return math.copysign(sure / measured.expected, excess) if sure else 0.0


def describe_filter(share: float) -> str:
    """Describe in words by which share of the entropy the surprisal is too large or too small."""
    more = "more" if share > 0 else "less"
    return (
        f"sampled tokens are at least {abs(share):.0%} {more} surprising than tokens of the policy: the engine applies a "
        "filter (top_p, top_k, min_p) or another temperature"
    )


def list_warnings(metrics: Metrics, config: RunConfig) -> list[str]:
    """List the warnings of an iteration's metrics.

    If the log-prob gap is above `logprob_gap.warn`, no warning names a sampler setting, since the gap distorts the search.
    """
    gap, share = metrics.get("logprob_gap/mean", 0.0), metrics.get("sampler/filter_share", 0.0)
    filters = [describe_filter(share)] if abs(share) > WARN_SHARE else []
    if gap > config.warn_gap:
        where = "`turnsmith mismatch RUN` looks for the cause"
        return [f"the log-prob gap {gap:.1e} is above logprob_gap.warn {config.warn_gap:g}: {where}", *filters]
    return filters + list_settings(metrics, ALARM_NATS)


def list_settings(metrics: Metrics, alarm: float) -> list[str]:
    """Describe the sampler setting with the largest log-likelihood ratio, if that reaches `alarm` nats."""
    nats = {kind: metrics.get(f"sampler/{kind}_nats", 0.0) for kind in VALUES}
    kind = max(nats, key=lambda each: nats[each])
    if nats[kind] < alarm:
        return []
    return [
        f"at {kind} {metrics[f'sampler/{kind}']:g} the sampled tokens are e^{nats[kind]:.0f} times as likely as under the "
        "policy: `turnsmith mismatch RUN` looks for the cause"
    ]
