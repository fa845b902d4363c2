"""The links of trajectories: from the digests of a journal to what proves a sample."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from turnsmith.errors import UsageError
from turnsmith.provenance import digest_prompt
from turnsmith.types import OUTCOMES, Link, OtherPrompt, Provenance, Trajectory


def prove(trajectory: Trajectory) -> Provenance:
    """A link for each turn, with the digest of its engine; all train."""
    turns = trajectory.turns
    return Provenance(tuple(Link(turn.start, turn.end, turn.policy_version, turn.digest) for turn in turns))


def prove_behind(prompt: np.ndarray, trajectory: Trajectory, trains: Sequence[bool]) -> Provenance:
    """The same where the turns stand behind a new first prompt (int32); `trains` says which of them are in the loss."""
    shift = len(prompt) - trajectory.prompt_tokens
    links = (
        replace(link, start=link.start + shift, end=link.end + shift, trains=is_trained)
        for link, is_trained in zip(prove(trajectory).links, trains, strict=True)
    )
    seen, digest = trajectory.token_ids[: trajectory.prompt_tokens], digest_prompt(trajectory.trajectory_id, prompt)
    return Provenance(tuple(links), prompt=OtherPrompt(seen, len(prompt), digest))


def refuse_unproven(trajectories: Iterable[Trajectory], journal: Path) -> None:
    """Raise UsageError where a turn that could train has no digest: its engine made none, or an earlier version sampled it."""
    for trajectory in trajectories:
        if has_no_digest(trajectory):
            raise UsageError(
                f"{trajectory.trajectory_id} has turns without a digest, so nothing proves that they were sampled: if an "
                f"earlier Turnsmith wrote {journal}, remove it and resume, and it is sampled again; if not, this engine makes "
                "none (engines.base.complete) and can only be evaluated"
            )


def has_no_digest(trajectory: Trajectory) -> bool:
    """Could it train, were it not for a turn that nothing proves?"""
    return OUTCOMES[trajectory.outcome].in_loss and not all(turn.digest for turn in trajectory.turns)
