"""Report of `turnsmith mismatch` as plain numbers, which tables and plots read without torch."""

from turnsmith.types import Record

MIN_SHARE = 0.5
"""Smallest explained fraction of the gap for which a fault is named."""


class Toggle(Record):
    """Result of testing one fault."""

    family: str
    name: str
    gap: float
    """Mean |difference| from the recorded log-probs under this fault; for rounding, the difference in size; nats per
    token.
    """
    share: float
    """Explained fraction of the gap under the stated policy; negative if the fault increases it."""


class Setting(Record):
    """Temperature or filter with the most evidence from the tokens."""

    name: str
    nats: float
    """Log-likelihood ratio of all tokens to the policy, nats."""
    needed: float
    """Nats that tokens of the policy exceed in at most one case of 10,000."""
    surprise: float
    """Mean −log p of the sampled tokens under the policy, nats per token."""
    entropy: float
    """Expected surprise of the policy's own tokens."""
    expected: float
    """Expected surprise of tokens sampled with this setting."""

    @property
    def is_sure(self) -> bool:
        return self.nats > self.needed

    @property
    def share(self) -> float:
        """Fraction of the difference between surprise and entropy that the setting explains."""
        difference = abs(self.surprise - self.entropy)
        return 1 - abs(self.surprise - self.expected) / difference if difference else 0.0


class Stretch(Record):
    """Gap over the tokens of one turn or one range of positions."""

    first: int
    """Turn number, from 1, or first position."""
    num_tokens: int
    gap: float
    """Gap under the stated policy."""
    left: float
    """Gap under the best-explaining fault."""


class MismatchReport(Record):
    """Report on one iteration."""

    stage: str
    iteration: int
    weights: str
    """Source of the weights that should have sampled it."""
    dtype: str
    """Stated dtype of the policy."""
    num_trajectories: int
    num_tokens: int
    gap: float
    """Mean |recorded − reference| in that dtype, nats per token."""
    rounding: float
    """Largest difference expected between two correct programs in that dtype."""
    toggles: list[Toggle]
    """Tested faults, best explanation first."""
    setting: Setting | None
    """None if tokens are not tested, because a gap beyond rounding already shows another policy."""
    by_turn: list[Stretch]
    by_position: list[Stretch]
    remarks: list[str]
    """Faults that could not be tested, and findings that need no model."""

    @property
    def conclusion(self) -> str:
        """One sentence: the fault and its share, `nothing: inside rounding`, or `unexplained`."""
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
