"""Rollouts under one hypothesis after the other: what each leaves of the gap, by turn and by position."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedModel

from turnsmith.mismatch import forward, precision, settings
from turnsmith.mismatch.base import Hypothesis, reported
from turnsmith.mismatch.report import Setting, Stretch, Toggle
from turnsmith.training.alternatives import ALTERNATIVES, least_evidence
from turnsmith.types import Trajectory

FALSE_ALARMS = 1e-4
"""Share of honest runs in which a setting may be named by chance."""
NUM_POSITIONS = 8
"""Ranges of absolute positions."""
ALL = slice(None)
REFERENCES: dict[str, tuple[Hypothesis, ...]] = {
    "float32": (Hypothesis("reference", "the policy in float32", forward.rescore),),
    "bfloat16": (precision.PRODUCTS, precision.THROUGHOUT),
}
"""How a policy of a dtype may compute; what comes nearest is the reference."""
OTHER_DTYPES: dict[str, tuple[Hypothesis, ...]] = {
    "float32": (precision.PRODUCTS, precision.THROUGHOUT),
    "bfloat16": (Hypothesis("dtype", "layers that compute in float32", forward.rescore),),
}


@dataclass(frozen=True)
class Rescoring:
    """For each sampled token of all rollouts, end to end, what a hypothesis predicts and what was reported."""

    family: str
    name: str
    is_noise: bool
    predicted: np.ndarray
    reported: np.ndarray

    @property
    def gaps(self) -> np.ndarray:
        """|predicted − reported|."""
        return abs(self.predicted - self.reported)

    @property
    def mean(self) -> float:
        return float(self.gaps.mean(dtype=np.float64))

    def left(self, reference: "Rescoring", here: np.ndarray | slice = ALL) -> float:
        """What it leaves of the reference's gap: the mean of its own, or of noise the difference in size."""
        if not self.is_noise or reference.is_noise:
            return float(self.gaps[here].mean(dtype=np.float64))
        noise = abs(self.predicted - reference.predicted)
        return abs(float(reference.gaps[here].mean(dtype=np.float64)) - float(noise[here].mean(dtype=np.float64)))


def attempt(hypothesis: Hypothesis, model: PreTrainedModel, trajectories: Sequence[Trajectory]) -> Rescoring:
    """Score the rollouts anew under a hypothesis, of which nothing stays: it may hold a model of its own."""
    prepared = hypothesis.prepare(model)
    predicted = np.concatenate([hypothesis.rescore(prepared, each) for each in trajectories])
    told = np.concatenate([reported(each) for each in trajectories])
    return Rescoring(hypothesis.family, hypothesis.name, hypothesis.is_noise, predicted, told)


def find_reference(dtype: str, model: PreTrainedModel, trajectories: Sequence[Trajectory]) -> Rescoring:
    """What the policy itself reports, in the dtype that it is said to compute in."""
    trials = [attempt(each, model, trajectories) for each in REFERENCES[dtype]]
    return min(trials, key=lambda trial: trial.mean)


def rank(trials: Iterable[Rescoring], reference: Rescoring) -> list[Toggle]:
    """Those that explain most first."""
    toggles = [
        Toggle(
            family=trial.family,
            name=trial.name,
            gap=(left := trial.left(reference)),
            share=1 - left / reference.mean if reference.mean else 0.0,
        )
        for trial in trials
    ]
    return sorted(toggles, key=lambda toggle: -toggle.share)


def fit_reported(model: PreTrainedModel, trajectories: Sequence[Trajectory]) -> Hypothesis:
    """The setting whose log-probs come nearest to those reported."""
    first = min(settings.fit(model, trajectories), key=lambda fit: fit.gap)
    finer = settings.fit(model, trajectories, settings.refine(first.alternative))
    return settings.reports(min(finer, key=lambda fit: fit.gap).alternative)


def fit_drawn(model: PreTrainedModel, trajectories: Sequence[Trajectory]) -> Setting:
    """The setting that makes the tokens likeliest."""
    first = max(settings.fit(model, trajectories), key=lambda fit: fit.nats)
    near = settings.refine(first.alternative)
    best = max(settings.fit(model, trajectories, near), key=lambda fit: fit.nats)
    surprise, entropy, expected = settings.surprise(model, trajectories, best.alternative)
    return Setting(
        name=f"drawn at {best.alternative}",
        nats=best.nats,
        needed=least_evidence(len(ALTERNATIVES) + len(near), FALSE_ALARMS),
        surprise=surprise,
        entropy=entropy,
        expected=expected,
    )


def list_turns(trajectories: Iterable[Trajectory]) -> np.ndarray:
    """Number of the turn, from 1, of each sampled token."""
    return np.array([
        number
        for trajectory in trajectories
        for number, turn in enumerate(trajectory.turns, start=1)
        for _ in range(turn.end - turn.start)
    ])  # fmt: skip


def list_positions(trajectories: Iterable[Trajectory]) -> np.ndarray:
    """First position of the range that each sampled token lies in."""
    positions = np.concatenate([np.flatnonzero(trajectory.sampled) for trajectory in trajectories])
    width = max(1, -(-(int(positions.max()) + 1) // NUM_POSITIONS))
    return positions // width * width


def split(
    trajectories: Sequence[Trajectory],
    places: Callable[[Iterable[Trajectory]], np.ndarray],
    reference: Rescoring,
    best: Rescoring,
) -> list[Stretch]:
    """Both gaps by place."""
    found = places(trajectories)
    return [
        Stretch(
            first=int(first),
            num_tokens=int((here := found == first).sum()),
            gap=reference.left(reference, here),
            left=best.left(reference, here),
        )
        for first in np.unique(found)
    ]
