"""Hypotheses of engine faults, and the reference forward pass: transformers in float32, one sequence at a time, no cache."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from turnsmith.config import RopeScaling
from turnsmith.engines.weights import load_complete
from turnsmith.training.configuration import read_config, report_model_errors
from turnsmith.training.shape import MAX_CHUNK_LOGITS
from turnsmith.types import Trajectory

KERNEL = "sdpa"
Rescore = Callable[[PreTrainedModel, Trajectory], np.ndarray]
"""Function that computes, with a float32 transformers model, the log-probs of a trajectory's sampled tokens; float32."""


@dataclass(frozen=True)
class Hypothesis:
    """One possible fault of an engine, with a function that computes the log-probs of an engine with this fault."""

    family: str
    """Family of the fault, e.g. `weights`."""
    name: str
    """Name of the fault, such as `eager attention`, that reports print."""
    rescore: Rescore
    is_noise: bool = False
    """True if the fault predicts only the size of log-prob errors, not their sign, as rounding does."""
    prepare: Callable[[PreTrainedModel], PreTrainedModel] = lambda model: model
    """Function that prepares the model for `rescore`, called once for all rollouts."""


def reported(trajectory: Trajectory) -> np.ndarray:
    """Return the log-probs that the engine reported for the sampled tokens, in order."""
    return trajectory.logprobs[trajectory.sampled]


def load_plain(directory: Path, device: torch.device, scaling: RopeScaling | None = None) -> PreTrainedModel:
    """Load a policy in float32 with transformers alone, without packed attention. Raises UsageError."""
    options = {"config": read_config(directory, scaling), "dtype": torch.float32, "attn_implementation": KERNEL}
    with report_model_errors(directory):
        model = load_complete(AutoModelForCausalLM, directory, **options)
    plain: PreTrainedModel = model.to(device).eval()  # type: ignore[arg-type]
    return plain


def rescore(model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-prob of each sampled token, given all tokens before it."""
    return score(model, trajectory.token_ids, trajectory.sampled)


def score(
    model: PreTrainedModel, token_ids: np.ndarray, wanted: np.ndarray, position_ids: np.ndarray | None = None
) -> np.ndarray:
    """Compute the log-probs (float32) of the tokens where the mask `wanted` is True; the first token must be False.

    Position ids count from 0 by default.
    """
    targets = torch.from_numpy(token_ids[wanted].astype(np.int64)).to(model.device)
    return logprobs_after(model, hidden_before(model, token_ids, wanted, position_ids), targets)


@torch.inference_mode()
def hidden_before(
    model: PreTrainedModel, token_ids: np.ndarray, wanted: np.ndarray, position_ids: np.ndarray | None = None
) -> Tensor:
    """Return the final hidden states `[wanted, hidden_size]` that predict the tokens where the mask `wanted` is True."""
    places = np.arange(len(token_ids)) if position_ids is None else position_ids
    ids, positions = (torch.from_numpy(row.astype(np.int64))[None].to(model.device) for row in (token_ids, places))
    # With a mask, transformers does not mistake position jumps for boundaries of packed sequences.
    mask = torch.ones_like(ids)
    output = model.get_decoder()(input_ids=ids, position_ids=positions, attention_mask=mask, use_cache=False)
    return output.last_hidden_state[0, np.flatnonzero(wanted) - 1]


@torch.inference_mode()
def logprobs_after(model: PreTrainedModel, hidden: Tensor, targets: Tensor) -> np.ndarray:
    """Return the log-probs of target tokens, given the hidden states that predict them."""
    rows = [
        logits.float().log_softmax(-1).gather(1, part[:, None])[:, 0]
        for logits, part in in_chunks(model, hidden, targets)
    ]
    return torch.cat(rows).cpu().numpy()


def in_chunks(model: PreTrainedModel, hidden: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield logits and their target tokens in chunks that fit into memory."""
    head = model.get_output_embeddings()
    chunk = max(1, MAX_CHUNK_LOGITS // head.weight.size(0))
    for part, wanted in zip(hidden.split(chunk), targets.split(chunk), strict=True):
        yield head(part), wanted


@contextmanager
def attending_by(model: PreTrainedModel, kernel: str) -> Iterator[None]:
    """Use another attention implementation of transformers inside the `with` block."""
    model.set_attn_implementation(kernel)
    try:
        yield
    finally:
        model.set_attn_implementation(KERNEL)
