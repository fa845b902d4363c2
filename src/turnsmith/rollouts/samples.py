"""Conversion of trajectories into groups with rewards, and into training samples with the engines' digests."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from turnsmith.algo.shaping import shape_reward
from turnsmith.config import StageConfig
from turnsmith.errors import UsageError
from turnsmith.training.provenance import digest_prompt
from turnsmith.types import OUTCOMES, Group, Link, OtherPrompt, Provenance, Sample, Trajectory


def to_groups(trajectories: Sequence[Trajectory], stage: StageConfig) -> list[Group]:
    """Group the trajectories of each task and compute their rewards. Groups are in the order of their first members."""
    siblings = defaultdict[str, list[Trajectory]](list)
    for trajectory in trajectories:
        siblings[trajectory.group_id].append(trajectory)
    reward = partial(shape_reward, length_threshold=stage.length_threshold, max_turns=stage.max_turns)
    return [
        Group(group_id=name, trajectories=members, rewards=[reward(t.resolved, t.num_turns) for t in members])
        for name, members in siblings.items()
    ]


def to_samples(group: Group, advantages: dict[str, float]) -> list[Sample]:
    """Convert trajectories into samples, each with one advantage for all its sampled tokens; leave out those of advantage 0."""
    return [to_sample(t, advantages[t.trajectory_id]) for t in group.trajectories if advantages.get(t.trajectory_id)]


def to_sample(trajectory: Trajectory, advantage: float) -> Sample:
    """Convert a trajectory into a sample with all sampled tokens in the loss."""
    return Sample(
        trajectory_id=trajectory.trajectory_id,
        group_id=trajectory.group_id,
        token_ids=trajectory.token_ids,
        loss_mask=trajectory.sampled,
        sampled_logprobs=trajectory.logprobs,
        advantages=np.broadcast_to(advantage, trajectory.token_ids.shape),
        provenance=prove(trajectory),
    )


def to_rft_sample(trajectory: Trajectory, prompt_ids: list[int]) -> Sample:
    """Convert a trajectory into an RFT sample, with its first prompt replaced by one without the demonstration.

    Turns with a format error, or cut at the context limit, are not in the loss (paper App. C). Example: a trajectory with
    prompt `[5, 6, 7]` and turn `[8, 2]`, given the new prompt `[5, 6]`, becomes the token ids `[5, 6, 8, 2]` with loss mask
    `[0, 0, 1, 1]`.
    """
    trains, imitated = trajectory.sampled.copy(), [turn.command is not None for turn in trajectory.turns]
    for turn, is_kept in zip(trajectory.turns, imitated, strict=True):
        trains[turn.start : turn.end] &= is_kept
    start, zeros = trajectory.prompt_tokens, np.zeros(len(prompt_ids), np.float32)
    prompt = np.array(prompt_ids, np.int32)
    token_ids = np.concatenate([prompt, trajectory.token_ids[start:]])
    return replace(
        to_sample(trajectory, 1.0),
        token_ids=token_ids,
        loss_mask=np.concatenate([zeros > 0, trains[start:]]),
        sampled_logprobs=np.concatenate([zeros, trajectory.logprobs[start:]]),
        advantages=np.ones(len(token_ids)),
        provenance=prove_with_prompt(prompt, trajectory, imitated),
    )


def prove(trajectory: Trajectory) -> Provenance:
    """Return the provenance of a sample with all turns in the loss: the engine's digest of each turn of the trajectory."""
    turns = trajectory.turns
    return Provenance(tuple(Link(turn.start, turn.end, turn.policy_version, turn.digest) for turn in turns))


def prove_with_prompt(prompt: np.ndarray, trajectory: Trajectory, trains: Sequence[bool]) -> Provenance:
    """Return the engine's digests for a sample with another first prompt (int32). `trains` marks the turns in the loss."""
    shift = len(prompt) - trajectory.prompt_tokens
    links = (
        replace(link, start=link.start + shift, end=link.end + shift, trains=is_trained)
        for link, is_trained in zip(prove(trajectory).links, trains, strict=True)
    )
    seen, digest = trajectory.token_ids[: trajectory.prompt_tokens], digest_prompt(trajectory.trajectory_id, prompt)
    return Provenance(tuple(links), prompt=OtherPrompt(seen, len(prompt), digest))


def refuse_unproven(trajectories: Iterable[Trajectory], journal: Path) -> None:
    """Raise UsageError if a trajectory that may be used for training has a turn without an engine's digest."""
    for trajectory in trajectories:
        if has_no_digest(trajectory):
            raise UsageError(
                f"{trajectory.trajectory_id} has turns without a digest, so it cannot be trained on: if an earlier version of "
                f"Turnsmith wrote {journal}, remove the file and resume to sample again; otherwise the engine must compute "
                "digests (engines.base.complete)"
            )


def has_no_digest(trajectory: Trajectory) -> bool:
    """Return True if a trajectory may be used for training but has a turn without an engine's digest."""
    return OUTCOMES[trajectory.outcome].in_loss and not all(turn.digest for turn in trajectory.turns)
