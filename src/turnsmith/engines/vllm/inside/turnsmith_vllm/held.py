"""Weights with which the layers of a vLLM model compute, unpacked into matrices."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

PROBE_ROWS = 256
"""Number of rows of the identity matrix that are multiplied at once."""


def read_held(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the name and value of every weight in a model. Raises ValueError if a layer's two copies of a weight differ."""
    seen: set[Tensor] = set()
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            is_packed = name == f"{prefix}.weight" and hasattr(module, "cpu_linear")
            value = read_packed(name, module, parameter) if is_packed else parameter
            # A shared weight counts once, after all its packed copies were compared.
            if parameter not in seen:
                seen.add(parameter)
                yield name, value


def read_packed(name: str, module: nn.Module, weight: Tensor) -> Tensor:
    """Return the matrix with which a linear layer on a CPU computes.

    On a CPU, vLLM packs the weight for oneDNN or another library and empties the parameter. So the matrix is recovered
    exactly, by multiplying rows of the identity. An embedding that is also the head keeps its parameter.
    """
    width: int = weight.shape[1] if weight.numel() else module.input_size_per_partition  # type: ignore[assignment]
    identity = torch.eye(width, dtype=weight.dtype)
    multiply: Callable[..., Tensor] = module.cpu_linear  # type: ignore[assignment]
    parts = [multiply(rows.contiguous(), weight, None) for rows in identity.split(PROBE_ROWS)]
    packed = torch.cat(parts).t()
    if weight.numel() and not torch.equal(packed, weight):
        raise ValueError(f"the packed copy of {name} differs from the weight")
    return packed
