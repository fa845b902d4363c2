"""What `turnsmith mismatch` found, in plain numbers: tables and pictures are made of it without torch."""

from turnsmith.types import Record

MIN_SHARE = 0.5
"""A fault that explains less of the gap is not named."""


class Toggle(Record):
    """One fault, tried."""

    family: str
    name: str
    gap: float
    """Mean |difference| of log-probs from those that were recorded, were this the fault, or of rounding the difference in size;
    nats per token."""
    share: float
    """Of the gap under the policy as it is said to be, what is gone; below 0 where the fault makes it larger."""


class Setting(Record):
    """The temperature or filter that the tokens themselves speak for most."""

    name: str
    nats: float
    """Log of the likelihood of all tokens under it, over that under the policy."""
    needed: float
    """Nats that honest tokens reach in at most one case of 10,000."""
    surprise: float
    """Mean −log p of the policy for what was sampled, nats per token."""
    entropy: float
    """What that is for the policy's own tokens."""
    expected: float
    """What that is for tokens of this setting."""

    @property
    def is_sure(self) -> bool:
        return self.nats > self.needed

    @property
    def share(self) -> float:
        """Of the difference between surprise and entropy, what the setting explains."""
        difference = abs(self.surprise - self.entropy)
        return 1 - abs(self.surprise - self.expected) / difference if difference else 0.0


class Stretch(Record):
    """Tokens of one turn, or of a range of absolute positions."""

    first: int
    """Number of the turn, from 1, or the first position."""
    num_tokens: int
    gap: float
    """Under the policy as it is said to be."""
    left: float
    """Under the fault that explains most."""


class MismatchReport(Record):
    """One iteration, examined."""

    stage: str
    iteration: int
    weights: str
    """Where those come from that are said to have sampled it."""
    dtype: str
    """In which the policy is said to compute."""
    num_trajectories: int
    num_tokens: int
    gap: float
    """Mean |recorded − reference|, the reference in that dtype; nats per token."""
    rounding: float
    """What two honest programs may differ by in that dtype."""
    toggles: list[Toggle]
    """Those that explain most first."""
    setting: Setting | None
    """None where the tokens are not asked: the gap is past rounding, so they are of another policy in any case."""
    by_turn: list[Stretch]
    by_position: list[Stretch]
    remarks: list[str]
    """What could not be tried, and what was seen without a model."""

    @property
    def conclusion(self) -> str:
        """One sentence: the fault with its share, `nothing: inside rounding`, or `unexplained`."""
        best = self.toggles[0] if self.toggles else None
        if self.gap <= self.rounding:
            return self._judge_tokens()
        if best is None or best.share < MIN_SHARE:
            near = f": {best.name} comes nearest and explains {best.share:.0%}" if best and best.share > 0 else ""
            return f"unexplained: log-probs differ by {self.gap:.2g} nats per token{near}"
        return (
            f"{best.name}: explains {best.share:.1%} of a gap of {self.gap:.2g} nats per token, {best.gap:.2g} are left"
        )

    def _judge_tokens(self) -> str:
        inside = f"log-probs differ by {self.gap:.1g} nats per token"
        if self.setting is None or not self.setting.is_sure:
            return f"nothing: inside rounding, {inside}, and tokens are as frequent as the policy has them"
        found = self.setting
        return (
            f"{found.name}, while log-probs of the policy are reported ({inside}): tokens are e^{found.nats:.0f} times as likely "
            f"under it, and it explains {found.share:.0%} of the difference between their surprise, {found.surprise:.3f} "
            f"nats per token, and the policy's entropy, {found.entropy:.3f}"
        )
