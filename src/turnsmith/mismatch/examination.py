"""Test of all hypotheses on stored rollouts: mean log-prob difference under each hypothesis, by turn and by position."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedModel

from turnsmith.mismatch import faults, forward, settings
from turnsmith.mismatch.forward import Hypothesis, reported
from turnsmith.mismatch.report import FaultResult, GapRange, SamplerFit
from turnsmith.training.sampler_settings import ALTERNATIVES, least_evidence
from turnsmith.types import Trajectory

FALSE_ALARMS = 1e-4
"""Fraction of runs with a correct engine in which a sampler setting may be reported as a fault by chance."""
NUM_POSITIONS = 8
"""Number of equal ranges into which the report divides the token positions."""
ALL = slice(None)
REFERENCES: dict[str, tuple[Hypothesis, ...]] = {
    "float32": (Hypothesis("reference", "the policy in float32", forward.rescore),),
    "bfloat16": faults.ROUNDING,
}
"""Dtype of a policy → correct ways to compute its log-probs. The one closest to the engine's log-probs is the reference."""
OTHER_DTYPES: dict[str, tuple[Hypothesis, ...]] = {
    "float32": faults.ROUNDING,
    "bfloat16": (Hypothesis("dtype", "layers that compute in float32", forward.rescore),),
}
"""Dtype of a policy → hypotheses that the engine computes in another dtype."""


@dataclass(frozen=True)
class Rescoring:
    """Log-probs of all sampled tokens, concatenated: those that a hypothesis predicts, and those that the engine reported."""

    family: str
    name: str
    is_noise: bool
    predicted: np.ndarray
    reported: np.ndarray

    @property
    def gaps(self) -> np.ndarray:
        """Return |predicted − reported| for each sampled token."""
        return abs(self.predicted - self.reported)

    @property
    def mean(self) -> float:
        return float(self.gaps.mean(dtype=np.float64))

    def left(self, reference: "Rescoring", here: np.ndarray | slice = ALL) -> float:
        """Return the mean |predicted − reported| of the tokens `here`, i.e. the difference that the hypothesis leaves.

        For rounding, return how much the mean |predicted − reference| differs from the mean |reported − reference|.
        """
        if not self.is_noise or reference.is_noise:
            return float(self.gaps[here].mean(dtype=np.float64))
        noise = abs(self.predicted - reference.predicted)
        return abs(float(reference.gaps[here].mean(dtype=np.float64)) - float(noise[here].mean(dtype=np.float64)))


def attempt(hypothesis: Hypothesis, model: PreTrainedModel, trajectories: Sequence[Trajectory]) -> Rescoring:
    """Compute the log-probs of the rollouts' sampled tokens under a hypothesis."""
    prepared = hypothesis.prepare(model)
    predicted = np.concatenate([hypothesis.rescore(prepared, each) for each in trajectories])
    recorded = np.concatenate([reported(each) for each in trajectories])
    return Rescoring(hypothesis.family, hypothesis.name, hypothesis.is_noise, predicted, recorded)


def find_reference(dtype: str, model: PreTrainedModel, trajectories: Sequence[Trajectory]) -> Rescoring:
    """Return the log-probs of the policy itself in `dtype`, computed in the way closest to the reported log-probs."""
    trials = [attempt(each, model, trajectories) for each in REFERENCES[dtype]]
    return min(trials, key=lambda trial: trial.mean)


def rank(trials: Iterable[Rescoring], reference: Rescoring) -> list[FaultResult]:
    """Sort tested hypotheses by the share of the log-prob difference that they explain, largest first."""
    toggles = [
        FaultResult(
            family=trial.family,
            name=trial.name,
            gap=(left := trial.left(reference)),
            share=1 - left / reference.mean if reference.mean else 0.0,
        )
        for trial in trials
    ]
    return sorted(toggles, key=lambda toggle: -toggle.share)


def fit_reported(model: PreTrainedModel, trajectories: Sequence[Trajectory]) -> Hypothesis:
    """Find the sampler setting whose log-probs are closest to the reported ones; return it as a hypothesis."""
    first = min(settings.fit(model, trajectories), key=lambda fit: fit.gap)
    finer = settings.fit(model, trajectories, settings.refine(first.alternative))
    return settings.make_hypothesis(min(finer, key=lambda fit: fit.gap).alternative)


def fit_drawn(model: PreTrainedModel, trajectories: Sequence[Trajectory]) -> SamplerFit:
    """Return the sampler setting under which the sampled tokens are most likely."""
    first = max(settings.fit(model, trajectories), key=lambda fit: fit.nats)
    near = settings.refine(first.alternative)
    best = max(settings.fit(model, trajectories, near), key=lambda fit: fit.nats)
    surprise, entropy, expected = settings.surprise(model, trajectories, best.alternative)
    return SamplerFit(
        name=f"drawn at {best.alternative}",
        nats=best.nats,
        needed=least_evidence(len(ALTERNATIVES) + len(near), FALSE_ALARMS),
        surprise=surprise,
        entropy=entropy,
        expected=expected,
    )


def list_turns(trajectories: Iterable[Trajectory]) -> np.ndarray:
    """Return the turn number, from 1, of each sampled token."""
    return np.array([
        number
        for trajectory in trajectories
        for number, turn in enumerate(trajectory.turns, start=1)
        for _ in range(turn.end - turn.start)
    ])  # fmt: skip


def list_positions(trajectories: Iterable[Trajectory]) -> np.ndarray:
    """Divide the token positions into `NUM_POSITIONS` ranges; return the first position of each sampled token's range."""
    positions = np.concatenate([np.flatnonzero(trajectory.sampled) for trajectory in trajectories])
    width = max(1, -(-(int(positions.max()) + 1) // NUM_POSITIONS))
    return positions // width * width


def split(
    trajectories: Sequence[Trajectory],
    places: Callable[[Iterable[Trajectory]], np.ndarray],
    reference: Rescoring,
    best: Rescoring,
) -> list[GapRange]:
    """Average log-prob differences of reference and best hypothesis over the tokens that `places` maps to one turn or range."""
    found = places(trajectories)
    return [
        GapRange(
            first=int(first),
            num_tokens=int((here := found == first).sum()),
            gap=reference.left(reference, here),
            left=best.left(reference, here),
        )
        for first in np.unique(found)
    ]
