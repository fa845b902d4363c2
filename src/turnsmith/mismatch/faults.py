"""Hypotheses of faults in the computation: attention kernels, bfloat16, positions, stale weights and a stale KV cache."""

import copy
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from turnsmith.engines.torch import attention
from turnsmith.engines.torch.sequences import common_prefix
from turnsmith.mismatch import forward
from turnsmith.mismatch.forward import Hypothesis
from turnsmith.training.model import logprobs_of_sampled
from turnsmith.types import MicroBatch, Sample, Trajectory

Shift = Callable[[Trajectory], np.ndarray]
"""Function that returns by how much the engine shifts the position of each token of a trajectory, `[tokens]`."""
Boundary = Callable[[Trajectory, int], int]
"""Function (trajectory, turn number from 0) → number of leading tokens whose keys and values are from earlier weights."""
MAX_TURN = 8
"""Last turn that is tried as the start of a position shift. A shift that starts later is reported with this start."""


def rescore_eager(model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-probs of the sampled tokens with transformers' eager attention."""
    with forward.attending_by(model, "eager"):
        return forward.rescore(model, trajectory)


@torch.no_grad()
def rescore_packed(dtype: torch.dtype, model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-probs with the trainer's packed attention; the layers compute in `dtype`."""
    names = trajectory.trajectory_id, trajectory.group_id
    rows = trajectory.token_ids, trajectory.sampled, trajectory.logprobs, np.zeros(len(trajectory.token_ids))
    with forward.attending_by(model, attention.NAME):
        return logprobs_of_sampled(model, MicroBatch([Sample(*names, *rows)]), dtype).cpu().numpy()


def cast(model: PreTrainedModel) -> PreTrainedModel:
    """Return a copy of the model in bfloat16. The copy also rounds logits, as inference servers do."""
    return copy.deepcopy(model).to(torch.bfloat16)  # type: ignore[arg-type]


KERNELS = (
    Hypothesis("kernel", "eager attention", rescore_eager),
    Hypothesis("kernel", "the trainer's packed attention", partial(rescore_packed, torch.float32)),
)
ROUNDING = (
    Hypothesis(
        "dtype",
        "rounding of layers that compute in bfloat16",
        partial(rescore_packed, torch.bfloat16),
        is_noise=True,
    ),
    Hypothesis("dtype", "rounding of a model in bfloat16 throughout", forward.rescore, is_noise=True, prepare=cast),
)
"""Hypotheses of rounding in bfloat16.

Programs add numbers in different orders, so their rounding errors differ, and only the mean size of errors is compared.
"""


def rescore_shifted(shift: Shift, model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-probs of an engine that shifts token positions. Negative positions become 0."""
    positions = (np.arange(len(trajectory.token_ids)) + shift(trajectory)).clip(min=0)
    return forward.score(model, trajectory.token_ids, trajectory.sampled, positions)


def shift_from_turn(turn: int, by: int, trajectory: Trajectory) -> np.ndarray:
    """Return the position shift of each token: 0 before turn `turn` (turns count from 0), and `by` from its first token on."""
    turns = trajectory.turns
    start = turns[turn].start if turn < len(turns) else len(trajectory.token_ids)
    return by * (np.arange(len(trajectory.token_ids)) >= start)


def shift_each_turn(by: int, trajectory: Trajectory) -> np.ndarray:
    """Return the position shift of each token, which grows by `by` after each turn."""
    ends = [turn.end for turn in trajectory.turns]
    return by * np.searchsorted(ends, np.arange(len(trajectory.token_ids)), side="right")


def list_shifts(num_turns: int) -> list[Hypothesis]:
    """List hypotheses of position shifts: ±1 from turn k on, for k up to `MAX_TURN`, or ±1 more after every turn."""
    first = {turn: f"from turn {turn + 1} on" for turn in range(min(num_turns, MAX_TURN))}
    first |= {0: "after the first prompt"}
    shifts: dict[str, Callable[[int], Shift]]
    shifts = {name: partial(partial, shift_from_turn, turn) for turn, name in first.items()}
    if num_turns > 1:
        shifts["more with each turn"] = partial(partial, shift_each_turn)
    return [
        Hypothesis("positions", f"positions off by {by:+d} {name}", partial(rescore_shifted, make(by)))
        for name, make in shifts.items()
        for by in (1, -1)
    ]


def list_stale(name: str, earlier: PreTrainedModel, seen: Sequence[np.ndarray]) -> list[Hypothesis]:
    """List hypotheses that the engine used `earlier` weights: for all tokens, or only for the keys and values in its cache."""
    boundaries: dict[str, Boundary] = {"all before each turn": lambda trajectory, turn: trajectory.turns[turn].start}
    if seen:
        boundaries = {"prompts known from before": partial(known_before, seen)} | boundaries
    return [
        Hypothesis("weights", f"stale weights, those of {name}", lambda _, each: forward.rescore(earlier, each)),
        *(
            Hypothesis(
                "cache",
                f"a stale cache, keys of {what} by the weights of {name}",
                partial(rescore_stale, boundary, earlier),
            )
            for what, boundary in boundaries.items()
        ),
    ]


def known_before(others: Sequence[np.ndarray], trajectory: Trajectory, turn: int) -> int:
    """Return the largest number of leading tokens that a trajectory's prompt shares with one of `others`, earlier sequences."""
    prompt = trajectory.token_ids[: trajectory.turns[0].start]
    return max((common_prefix(prompt, other) for other in others), default=0)


def rescore_stale(
    boundary: Boundary, earlier: PreTrainedModel, model: PreTrainedModel, trajectory: Trajectory
) -> np.ndarray:
    """Compute the log-probs of an engine with keys and values from `earlier` weights before the `boundary` of each turn.

    The last token before a turn is computed with the current weights, since it predicts the first token of the turn.
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
    """Compute log-probs of sampled tokens before `end`; `earlier` computes keys and values of the first `cut` tokens."""
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
