"""Log-probs of samples, and the gradient of a function of them."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from turnsmith.training.model import logprobs_of_sampled
from turnsmith.types import MicroBatch, Sample


def weigh_logprobs(
    model: PreTrainedModel, samples: list[Sample], dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return the log-probs of the samples, and a weighted sum of them."""
    logprobs = logprobs_of_sampled(model, MicroBatch(samples), dtype)
    return logprobs, (logprobs * torch.linspace(-1, 1, len(logprobs))).sum()


def score_and_differentiate(
    model: PreTrainedModel, samples: list[Sample], dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """Return the log-probs of the samples, and the gradient of each parameter of a weighted sum of them."""
    logprobs, weighted = weigh_logprobs(model, samples, dtype)
    weighted.backward()
    return [logprobs.detach(), *(parameter.grad for parameter in model.parameters())]


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Return the norm of the difference of two tensors, relative to the norm of the second."""
    return ((found - expected).norm() / expected.norm()).item()
