"""Report of `turnsmith mismatch`, as plain numbers that tables and plots can read without torch."""

from turnsmith.types import Record

MIN_SHARE = 0.5
"""Smallest fraction of the log-prob difference that a fault must explain to be named as its cause."""


class FaultResult(Record):
    """Result of one tested fault of the engine."""

    family: str
    name: str
    gap: float
    """Mean |difference| between the log-probs under this fault and those that the engine reported, nats per token.

    For rounding: difference between the mean sizes of the predicted and the reported errors.
    """
    share: float
    """Fraction of the log-prob difference of engine and policy that disappears under this fault; negative if it grows."""


class SamplerFit(Record):
    """Sampler setting, of the tried temperatures and filters, under which the sampled tokens are most likely."""

    name: str
    nats: float
    """log(likelihood of all sampled tokens under this setting / likelihood under the policy), in nats."""
    needed: float
    """Value of `nats` above which the setting is reported; with a correct engine, at most 1 of 10,000 runs exceeds it."""
    surprise: float
    """Mean −log p of the sampled tokens under the policy, nats per token."""
    entropy: float
    """Mean −log p expected for tokens that the policy samples, nats per token."""
    expected: float
    """Mean −log p expected for tokens sampled with this setting, nats per token."""

    @property
    def is_sure(self) -> bool:
        return self.nats > self.needed

    @property
    def share(self) -> float:
        """Fraction of the difference `surprise` − `entropy` that this setting explains: 1 if `expected` equals `surprise`."""
        difference = abs(self.surprise - self.entropy)
        return 1 - abs(self.surprise - self.expected) / difference if difference else 0.0


class GapRange(Record):
    """Mean log-prob differences over the tokens of one turn or of one range of positions."""

    first: int
    """Number of the turn, from 1, or first token position of the range of positions."""
    num_tokens: int
    gap: float
    """Mean |difference| between log-probs computed from the policy's weights and those of the engine, nats per token."""
    left: float
    """Mean |difference| between the engine's log-probs and those under the fault that explains most, nats per token."""


class MismatchReport(Record):
    """Report on the log-probs of one iteration's rollouts."""

    stage: str
    iteration: int
    weights: str
    """Source of the weights that the engine should have sampled with."""
    dtype: str
    """Number format of the policy, as the run's configuration says."""
    num_trajectories: int
    num_tokens: int
    gap: float
    """Mean |difference| between the engine's log-probs and the reference's, nats per token."""
    rounding: float
    """Largest `gap` that the report attributes to rounding, nats per token."""
    toggles: list[FaultResult]
    """Tested faults of the engine, best explanation first."""
    setting: SamplerFit | None
    """Sampler setting under which the tokens are most likely; None (not tested) if `gap` is above `rounding`."""
    by_turn: list[GapRange]
    by_position: list[GapRange]
    remarks: list[str]
    """Sentences on untested faults, on turns whose tokens change if tokenised again, and on warnings of the training run."""

    @property
    def conclusion(self) -> str:
        """Result in one sentence: the fault and the share that it explains, `nothing: inside rounding`, or `unexplained`."""
        best = self.toggles[0] if self.toggles else None
        if self.gap <= self.rounding:
            return self._judge_tokens()
        if best is None or best.share < MIN_SHARE:
            near = f": {best.name} comes nearest and explains {best.share:.0%}" if best and best.share > 0 else ""
            return f"unexplained: log-probs differ by {self.gap:.2g} nats per token{near}"
        return (
            f"{best.name}: explains {best.share:.1%} of a gap of {self.gap:.2g} nats per token, leaving {best.gap:.2g}"
        )

    def _judge_tokens(self) -> str:
        inside = f"log-probs differ by {self.gap:.1g} nats per token"
        if self.setting is None or not self.setting.is_sure:
            return f"nothing: inside rounding, {inside}, and token frequencies match the policy"
        found = self.setting
        return (
            f"{found.name}, while log-probs of the policy are reported ({inside}): tokens are e^{found.nats:.0f} times as likely "
            f"under it, and it explains {found.share:.0%} of the difference between their surprise, {found.surprise:.3f} "
            f"nats per token, and the policy's entropy, {found.entropy:.3f}"
        )
