"""From trajectories to what trains: groups with shaped rewards, samples with advantages, samples for RFT."""

from collections.abc import Sequence
from itertools import groupby

from turnsmith.algo.advantages import group_advantages
from turnsmith.config import StageConfig
from turnsmith.rewards.shaping import shape_reward
from turnsmith.types import Group, Sample, Trajectory


def to_groups(trajectories: Sequence[Trajectory], stage: StageConfig) -> list[Group]:
    """Siblings side by side become a group with R_final."""
    return [to_group(list(siblings), stage) for _, siblings in groupby(trajectories, key=lambda t: t.instance_id)]


def to_group(siblings: list[Trajectory], stage: StageConfig) -> Group:
    """Trajectories of one task, and what each earned."""
    rewards = [
        shape_reward(t.resolved, t.num_turns, length_threshold=stage.length_threshold, max_turns=stage.max_turns)
        for t in siblings
    ]
    return Group(instance_id=siblings[0].instance_id, trajectories=siblings, rewards=rewards)


def to_samples(group: Group, stage: StageConfig) -> list[Sample]:
    """The members of a group that train; one advantage on every sampled token. Zero advantages teach nothing and are dropped."""
    advantages = group_advantages(group, stage.advantage_std)
    members = [t for t in group.trajectories if advantages.get(t.trajectory_id)]
    return [to_sample(trajectory, advantages[trajectory.trajectory_id]) for trajectory in members]


def to_sample(trajectory: Trajectory, advantage: float) -> Sample:
    """All sampled tokens of a trajectory, exactly as they were sampled."""
    return Sample(
        trajectory_id=trajectory.trajectory_id,
        token_ids=trajectory.token_ids,
        loss_mask=trajectory.sampled,
        sampled_logprobs=trajectory.logprobs,
        advantages=[advantage] * len(trajectory.token_ids),
    )


def to_rft_sample(trajectory: Trajectory, prompt_ids: list[int], *, mask_format_errors: bool) -> Sample:
    """A trajectory behind a new first prompt (the one without demonstration), turns that ran nothing out of the loss.

    A turn that was cut at the context limit never trains; one with a format error does where it is not to be masked.

    Prompt `[5, 6, 7]` was collected with; `[5, 6]` trains: token ids `[5, 6, 8, 2]`, loss mask `[0, 0, 1, 1]`.
    """
    idle = [turn for turn in trajectory.turns if turn.command is None]
    masked = [turn for turn in idle if mask_format_errors or not turn.format_error]
    sampled = list(trajectory.sampled)
    for turn in masked:
        sampled[turn.start : turn.end] = [False] * (turn.end - turn.start)
    start, zeros = trajectory.prompt_tokens, [0] * len(prompt_ids)
    token_ids = prompt_ids + trajectory.token_ids[start:]
    return Sample(
        trajectory_id=trajectory.trajectory_id,
        token_ids=token_ids,
        loss_mask=[False] * len(zeros) + sampled[start:],
        sampled_logprobs=[0.0] * len(zeros) + trajectory.logprobs[start:],
        advantages=[1.0] * len(token_ids),
    )
