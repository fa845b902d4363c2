"""Provenance of training samples: the engines' digests of turns, taken from trajectories."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from turnsmith.errors import UsageError
from turnsmith.training.provenance import digest_prompt
from turnsmith.types import OUTCOMES, Link, OtherPrompt, Provenance, Trajectory


def prove(trajectory: Trajectory) -> Provenance:
    """Return the provenance of a sample with all turns of a trajectory in the loss: one link (digest) per turn."""
    turns = trajectory.turns
    return Provenance(tuple(Link(turn.start, turn.end, turn.policy_version, turn.digest) for turn in turns))


def prove_with_prompt(prompt: np.ndarray, trajectory: Trajectory, trains: Sequence[bool]) -> Provenance:
    """Return the provenance of a sample whose first prompt (int32) was replaced; `trains` marks the turns in the loss."""
    shift = len(prompt) - trajectory.prompt_tokens
    links = (
        replace(link, start=link.start + shift, end=link.end + shift, trains=is_trained)
        for link, is_trained in zip(prove(trajectory).links, trains, strict=True)
    )
    seen, digest = trajectory.token_ids[: trajectory.prompt_tokens], digest_prompt(trajectory.trajectory_id, prompt)
    return Provenance(tuple(links), prompt=OtherPrompt(seen, len(prompt), digest))


def refuse_unproven(trajectories: Iterable[Trajectory], journal: Path) -> None:
    """Raise UsageError if a trajectory that may be trained on has a turn without an engine's digest."""
    for trajectory in trajectories:
        if has_no_digest(trajectory):
            raise UsageError(
                f"{trajectory.trajectory_id} has turns without a digest, so it cannot be trained on: if an earlier version of "
                f"Turnsmith wrote {journal}, remove the file and resume to sample again; otherwise the engine must compute "
                "digests (engines.base.complete)"
            )


def has_no_digest(trajectory: Trajectory) -> bool:
    """Return True if a trajectory may be trained on but has a turn without an engine's digest."""
    return OUTCOMES[trajectory.outcome].in_loss and not all(turn.digest for turn in trajectory.turns)
