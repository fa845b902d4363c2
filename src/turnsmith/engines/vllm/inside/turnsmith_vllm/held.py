"""What a model of vLLM computes with, as matrices of rows, whatever it was packed into."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

PROBE_ROWS = 256
"""Rows of the identity that are multiplied at once."""


def read_held(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Name and value of every weight. Raises ValueError where a layer keeps two copies of one that differ."""
    seen: set[Tensor] = set()
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            is_packed = name == f"{prefix}.weight" and hasattr(module, "cpu_linear")
            value = read_packed(name, module, parameter) if is_packed else parameter
            # What is shared counts once, but every packed copy of it has been compared.
            if parameter not in seen:
                seen.add(parameter)
                yield name, value


def read_packed(name: str, module: nn.Module, weight: Tensor) -> Tensor:
    """The matrix of a linear layer on a CPU.

    There it is packed for oneDNN or another library and the parameter is emptied, so it is asked for what it makes of the rows
    of the identity: sums of zeros and one number, and so exact. Of an embedding that is also the head the parameter stays.
    """
    width: int = weight.shape[1] if weight.numel() else module.input_size_per_partition  # type: ignore[assignment]
    identity = torch.eye(width, dtype=weight.dtype)
    multiply: Callable[..., Tensor] = module.cpu_linear  # type: ignore[assignment]
    parts = [multiply(rows.contiguous(), weight, None) for rows in identity.split(PROBE_ROWS)]
    packed = torch.cat(parts).t()
    if weight.numel() and not torch.equal(packed, weight):
        raise ValueError(f"the packed copy of {name} is not the weight")
    return packed
