"""Log-probs of samples, gradients, and differences between gradients."""

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
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


def read_gradients(model: nn.Module) -> dict[str, Tensor]:
    """Map the name of each parameter to a copy of its whole gradient. All ranks of a sharded model call it at once."""
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {
        name: (gradient.full_tensor() if isinstance(gradient, DTensor) else gradient).clone()
        for name, gradient in gradients.items()
    }


def largest_error(found: dict[str, Tensor], expected: dict[str, Tensor]) -> float:
    """Return the largest relative difference of a gradient.

    A parameter whose gradient is below 1 % of the whole gradient is compared with that 1 %.
    """
    assert found.keys() == expected.keys()
    whole = torch.stack([gradient.norm() for gradient in expected.values()]).norm()
    scales = {name: gradient.norm().clamp(min=1e-2 * whole) for name, gradient in expected.items()}
    return max(((found[name] - gradient).norm() / scales[name]).item() for name, gradient in expected.items())
