"""Weights that a vLLM model computes with, unpacked into matrices."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

PROBE_ROWS = 256
"""Identity rows multiplied at once."""


def read_held(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield name and value of every weight. Raises ValueError if a layer keeps two differing copies of one."""
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
    """Return the matrix of a linear layer on a CPU.

    A CPU layer is packed for oneDNN or another library, and its parameter is emptied. So the matrix is recovered by
    multiplying rows of the identity, which is exact. An embedding that is also the head keeps its parameter.
    """
    width: int = weight.shape[1] if weight.numel() else module.input_size_per_partition  # type: ignore[assignment]
    identity = torch.eye(width, dtype=weight.dtype)
    multiply: Callable[..., Tensor] = module.cpu_linear  # type: ignore[assignment]
    parts = [multiply(rows.contiguous(), weight, None) for rows in identity.split(PROBE_ROWS)]
    packed = torch.cat(parts).t()
    if weight.numel() and not torch.equal(packed, weight):
        raise ValueError(f"the packed copy of {name} is not the weight")
    return packed
