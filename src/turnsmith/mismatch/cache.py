"""Fault of an engine with a stale KV cache: keys and values of a prefix come from earlier weights."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from turnsmith.engines.torch.sequences import common_prefix
from turnsmith.mismatch import forward
from turnsmith.mismatch.base import Hypothesis
from turnsmith.types import Trajectory

Boundary = Callable[[Trajectory, int], int]
"""Function from trajectory and turn to the number of leading tokens with stale keys."""


def rescore_stale(
    boundary: Boundary, earlier: PreTrainedModel, model: PreTrainedModel, trajectory: Trajectory
) -> np.ndarray:
    """Compute the log-probs of an engine that keeps keys and values from `earlier` weights.

    The last token before a turn is never stale.
    """
    turns = trajectory.turns
    cuts = [min(boundary(trajectory, number), turn.start - 1) for number, turn in enumerate(turns)]
    if len(set(cuts)) == 1:
        return score_over(earlier, model, trajectory, cuts[0], trajectory.turns[-1].end)
    # Keys that are fresh in this turn are stale in the next.
    rows = [score_over(earlier, model, trajectory, cut, turn.end) for cut, turn in zip(cuts, turns, strict=True)]
    return np.concatenate([row[-(turn.end - turn.start) :] for row, turn in zip(rows, turns, strict=True)])


@torch.inference_mode()
def score_over(
    earlier: PreTrainedModel, model: PreTrainedModel, trajectory: Trajectory, cut: int, end: int
) -> np.ndarray:
    """Compute log-probs of sampled tokens up to `end`, with keys and values of the first `cut` tokens from `earlier` weights."""
    token_ids = torch.from_numpy(trajectory.token_ids[:end].astype(np.int64))[None].to(model.device)
    cache = DynamicCache()
    if cut:
        earlier.get_decoder()(input_ids=token_ids[:, :cut], **pass_cache(earlier.get_decoder(), cache))
    output = model.get_decoder()(input_ids=token_ids[:, cut:], **pass_cache(model.get_decoder(), cache))
    hidden: Tensor = output.last_hidden_state[0]
    sampled = np.flatnonzero(trajectory.sampled[:end])
    wanted = sampled[sampled > cut]
    scores = forward.logprobs_after(model, hidden[wanted - 1 - cut], token_ids[0, wanted])
    # Tokens before the cut are scored in other turns.
    return np.concatenate([np.zeros(len(sampled) - len(wanted), np.float32), scores])


def pass_cache(decoder: nn.Module, cache: DynamicCache) -> dict[str, Any]:
    """Return the keyword arguments that make a decoder use a cache; transformers 5.24 renamed one of the arguments."""
    is_renamed = "cache" in inspect.signature(decoder.forward).parameters
    return {"cache" if is_renamed else "past_key_values": cache, "use_cache": True}


def known_before(others: Sequence[np.ndarray], trajectory: Trajectory, turn: int) -> int:
    """Return the length of the longest prefix that the first prompt has in common with an earlier sequence."""
    prompt = trajectory.token_ids[: trajectory.turns[0].start]
    return max((common_prefix(prompt, other) for other in others), default=0)


def earlier_turns(trajectory: Trajectory, turn: int) -> int:
    """Return the number of tokens before a turn, all of which the cache may hold."""
    return trajectory.turns[turn].start


def list_hypotheses(name: str, earlier: PreTrainedModel, seen: Sequence[np.ndarray]) -> list[Hypothesis]:
    """List hypotheses of stale keys: those of shared prompt prefixes, and those of all earlier turns."""
    boundaries: dict[str, Boundary] = {"all before each turn": earlier_turns}
    if seen:
        boundaries = {"prompts known from before": partial(known_before, seen)} | boundaries
    return [
        Hypothesis(
            "cache",
            f"a stale cache, keys of {what} by the weights of {name}",
            partial(rescore_stale, boundary, earlier),
        )
        for what, boundary in boundaries.items()
    ]
