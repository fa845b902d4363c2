"""Digests for handmade trajectories, as an engine computes them."""

from turnsmith.types import Trajectory, Turn, digest_turn


def with_digests(trajectory: Trajectory) -> Trajectory:
    return trajectory.grow(turns=[with_digest(turn, trajectory) for turn in trajectory.turns])


def with_digest(turn: Turn, trajectory: Trajectory) -> Turn:
    place = slice(turn.start, turn.end)
    sampled = trajectory.token_ids[place], trajectory.logprobs[place], turn.policy_version
    digest = digest_turn(trajectory.trajectory_id, trajectory.token_ids[: turn.start], *sampled)
    return turn.model_copy(update={"digest": digest})
