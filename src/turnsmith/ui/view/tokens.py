"""Sampled tokens of a trajectory, with log-prob, loss mask, advantage and engine–trainer gap."""

from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from turnsmith.config import RFT
from turnsmith.errors import UsageError
from turnsmith.runs.folder import IterationFolder
from turnsmith.types import Trajectory, Turn
from turnsmith.ui.reading import find_tokenizer, load_tokenizer
from turnsmith.ui.view.groups import read_rewards
from turnsmith.ui.view.opened import OpenedRun

Token = tuple[str, float, bool | None, float | None]
"""Text, log-prob, True if the token was in the loss, and gap; None for what is not known."""


def describe_tokens(run: OpenedRun, journal: str, start: int) -> dict[str, Any]:
    """Return the advantage of a trajectory and the sampled tokens of each turn. Raises UsageError.

    The gap of a token is the trainer's log-prob minus the engine's. A token with a part of a character has the text of the
    replacement character. A trajectory of an endpoint's messages has no tokens.
    """
    trajectory = run.read(journal, start).trajectory
    recorded = read_rewards(run, journal).get(trajectory.trajectory_id, {})
    if trajectory.form == "messages":
        return {"advantage": None, "turns": []}
    tokenizer, gaps = load_tokenizer(find_tokenizer(run.folder)), read_gaps(run, journal, trajectory)
    trains = find_loss_turns(journal, trajectory, recorded)
    turns = [
        list_tokens(tokenizer, trajectory, turn, is_trained, gaps)
        for turn, is_trained in zip(trajectory.turns, trains, strict=True)
    ]
    return {"advantage": recorded.get("advantage"), "turns": turns}


def list_tokens(
    tokenizer: Any, trajectory: Trajectory, turn: Turn, is_trained: bool | None, gaps: np.ndarray | None
) -> list[Token]:
    """List the sampled tokens of one turn."""
    place = slice(turn.start, turn.end)
    texts = tokenizer.decode_batch(
        [[token_id] for token_id in trajectory.token_ids[place].tolist()], skip_special_tokens=False
    )
    measured = [None] * len(texts) if gaps is None else gaps[place].tolist()
    return [
        (text, logprob, is_trained, gap)
        for text, logprob, gap in zip(texts, trajectory.logprobs[place].tolist(), measured, strict=True)
    ]


def find_loss_turns(journal: str, trajectory: Trajectory, recorded: dict[str, float | None]) -> list[bool | None]:
    """Find the turns that were in the loss; None if the run did not record it.

    RFT trains the turns with a command of resolved trajectories, and RL all turns of trajectories with an advantage.
    """
    kind, stage, *_ = journal.split("/")
    if kind == "evals":
        return [False] * trajectory.num_turns
    if stage == RFT:
        return [trajectory.resolved and turn.command is not None for turn in trajectory.turns]
    return [recorded["advantage"] is not None if recorded else None] * trajectory.num_turns


def read_gaps(run: OpenedRun, journal: str, trajectory: Trajectory) -> np.ndarray | None:
    """Read the trainer's log-probs minus the engine's, float32, parallel to the tokens; None if they were not recorded.

    Raises UsageError if the file is damaged.
    """
    file = IterationFolder(run.folder.path / journal).trainer_logprobs
    if not file.exists():
        return None
    try:
        with safe_open(file, "np") as arrays:
            names = arrays.keys()
            if trajectory.trajectory_id not in names:
                return None
            return np.asarray(arrays.get_tensor(trajectory.trajectory_id) - trajectory.logprobs)
    except SafetensorError as error:
        raise UsageError(f"{file} is damaged ({error}): put back a copy of it, or remove it") from None
