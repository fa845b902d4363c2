"""Fault of an engine that samples with another temperature or a filter.

If the engine reports log-probs of the distribution from which it draws, these log-probs reveal the setting. If it reports
the policy's log-probs, only the sampled tokens reveal the setting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from turnsmith.engines.torch.sampling import shape_logits
from turnsmith.mismatch import forward
from turnsmith.mismatch.forward import Hypothesis, reported
from turnsmith.training.sampler_settings import ALTERNATIVES, Alternative, Sampled, log_ratio, mix_with_policy
from turnsmith.types import SamplingParams, Trajectory

FORBIDDEN = -30.0
"""Log-prob assumed for a token that a filter excludes, in place of −∞."""
STEPS = {"temperature": (0.01, 5), "top_k": (1, 10), "top_p": (0.005, 6), "min_p": (0.002, 5)}
"""Second search, around the best setting of the first: kind of setting → (step size, steps in each direction)."""
MAX_SHAPED = 2_000
"""Number of tokens after which no further rollout is used to compute the expected −log p under a setting."""


@dataclass(frozen=True)
class Fit:
    """Fit of one sampler setting to the tokens and the reported log-probs of some rollouts."""

    alternative: Alternative
    nats: float
    """log(likelihood of the sampled tokens under this setting / likelihood under the policy), in nats."""
    gap: float
    """Mean |difference| per token between the log-probs under this setting and those that the engine reported."""


def fit(
    model: PreTrainedModel, trajectories: Sequence[Trajectory], alternatives: Sequence[Alternative] = ALTERNATIVES
) -> list[Fit]:
    """Compute the fit of every sampler setting, in one pass over the rollouts."""
    nats, gaps, num = np.zeros(len(alternatives)), np.zeros(len(alternatives)), 0
    for trajectory in trajectories:
        said = torch.from_numpy(reported(trajectory).copy()).to(model.device)
        done = 0
        for sampled in distributions(model, trajectory):
            own = sampled.own[:, 0]
            ratios = torch.stack([log_ratio(sampled, each) for each in alternatives])
            nats += mix_with_policy(ratios).double().sum(1).cpu().numpy()
            differences = (own + ratios).clamp(min=FORBIDDEN) - said[done : done + len(own)]
            gaps += differences.abs().double().sum(1).cpu().numpy()
            done += len(own)
        num += done
    return [Fit(*each) for each in zip(alternatives, nats.tolist(), (gaps / num).tolist(), strict=True)]


def distributions(model: PreTrainedModel, trajectory: Trajectory) -> list[Sampled]:
    """Return the policy's distributions at all sampled tokens of a trajectory, in chunks."""
    targets = torch.from_numpy(trajectory.token_ids[trajectory.sampled].astype(np.int64)).to(model.device)
    hidden = forward.hidden_before(model, trajectory.token_ids, trajectory.sampled)
    with torch.inference_mode():
        return [Sampled(logits.float(), part) for logits, part in forward.in_chunks(model, hidden, targets)]


def refine(alternative: Alternative) -> tuple[Alternative, ...]:
    """List a setting and settings of the same kind with slightly smaller or larger values."""
    step, count = STEPS[alternative.kind]
    values = [round(alternative.value + step * each, 6) for each in range(-count, count + 1)]
    # Temperature 1, top-p 1 and min-p 1 are no alternatives, and probabilities do not exceed 1.
    most = 1.0 if alternative.kind in ("top_p", "min_p") else float("inf")
    possible = [value for value in values if 0 < value < most and (value != 1 or alternative.kind == "top_k")]
    return tuple(Alternative(alternative.kind, value) for value in possible)


def rescore_shaped(alternative: Alternative, model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-probs of an engine that draws with a setting and reports the log-probs of that distribution."""
    chunks = distributions(model, trajectory)
    rows = [(chunk.own[:, 0] + log_ratio(chunk, alternative)).clamp(min=FORBIDDEN) for chunk in chunks]
    return torch.cat(rows).cpu().numpy()


def make_hypothesis(alternative: Alternative) -> Hypothesis:
    """Make the hypothesis that the engine draws with a setting and reports the log-probs of that distribution."""
    return Hypothesis("settings", f"{alternative}, drawn and reported", partial(rescore_shaped, alternative))


@torch.inference_mode()
def surprise(
    model: PreTrainedModel, trajectories: Sequence[Trajectory], alternative: Alternative
) -> tuple[float, float, float]:
    """Return three means of −log p under the policy, in nats per token.

    The first is measured on the sampled tokens. The second is expected if the policy samples, the third if `alternative` does.
    """
    means, num = np.zeros(3), 0
    for trajectory in trajectories:
        for sampled in distributions(model, trajectory):
            means += _surprise(sampled, alternative).cpu().numpy()
            num += len(sampled.own)
        if num >= MAX_SHAPED:
            break
    seen, own, other = (means / num).tolist()
    return seen, own, other


def _surprise(sampled: Sampled, alternative: Alternative) -> Tensor:
    value = int(alternative.value) if alternative.kind == "top_k" else alternative.value
    params = SamplingParams(**{alternative.kind: value})
    shaped = torch.stack([shape_logits(row, params, []) for row in sampled.logits]).softmax(-1)
    entropy, other = (-(shares * sampled.logprobs).sum() for shares in (sampled.logprobs.exp(), shaped))
    return torch.stack([-sampled.own.sum(), entropy, other]).double()
