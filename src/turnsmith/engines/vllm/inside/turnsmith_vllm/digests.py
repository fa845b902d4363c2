"""Digests of weights, computed on both sides of a transfer: of the weights sent, and of those with which a model computes.

A digest sums hashes of rows per layer. vLLM stacks rows of several matrices (queries, keys and values; gate and up)
and adds zero rows, which leaves the sum unchanged. One changed number always changes the hash of its row; several changes
cancel each other with probability 2**-64. The sum ignores the order of rows within a layer and the sign of zero. So one
error remains undetected: a loader that swaps matrices of equal width in one layer.
"""

import re
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn

CHUNK_NUMBERS = 2**22
"""Count of numbers that are hashed at once; each number takes about 8 bytes of working memory."""

WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Bytes per number → integer dtype of equal width, as which the bits of weights are read for hashing."""
PROBE_ROWS = 256
"""Number of rows of the identity that a layer multiplies at once, when its packed weight is recovered."""


def digest_layers(weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> dict[str, int]:
    """Sum the row hashes of the weights in each layer, cast to `dtype`. The key of weights outside of layers is ''."""
    sums: dict[str, int] = {}
    for name, tensor in weights:
        add_digests(sums, {layer_of(name): sum_rows(tensor.detach().to(dtype))})
    return sums


def add_digests(sums: dict[str, int], digests: dict[str, int]) -> None:
    """Add the layer digests of more weights to `sums`, in place."""
    for layer, digest in digests.items():
        sums[layer] = (sums.get(layer, 0) + digest) % 2**64


def layer_of(name: str) -> str:
    """Return the layer number in the name of a weight; empty outside of layers."""
    found = re.search(r"\.(\d+)\.", name)
    return found[1] if found else ""


def sum_rows(tensor: Tensor) -> int:
    """Sum the hashes of all rows of a weight, modulo 2**64; a vector counts as a column."""
    rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() > 1 else tensor.reshape(-1, 1)
    width = max(1, rows.shape[1])
    factors = odd_factors(width, rows.device)
    total = 0
    for chunk in rows.split(max(1, CHUNK_NUMBERS // width)):
        # Convert -0 to 0, since matrix products do not distinguish them.
        words = (chunk + 0.0).contiguous().view(WORDS[chunk.element_size()]).long()
        total += int(mix((words * factors).sum(1)).sum())
    return total % 2**64


def odd_factors(count: int, device: torch.device) -> Tensor:
    """Return fixed odd factors, int64, that multiply a row's columns before hashing.

    Odd factors are invertible modulo 2**64, so a change of one number always changes the hash.
    """
    return mix(torch.arange(1, count + 1, device=device) * -7046029254386353131) | 1


def mix(numbers: Tensor) -> Tensor:
    """Hash each int64 by the finalizer of SplitMix64; zero stays zero."""
    numbers = (numbers ^ shift(numbers, 30)) * -4658895280553007687
    numbers = (numbers ^ shift(numbers, 27)) * -7723592293110705685
    return numbers ^ shift(numbers, 31)


def shift(numbers: Tensor, bits: int) -> Tensor:
    """Shift int64 numbers right by `bits`, filling with zeros."""
    return (numbers >> bits) & (2 ** (64 - bits) - 1)


def read_held(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield name and value of every weight in a model. Raises ValueError if vLLM's copy of a weight, packed for CPUs, differs."""
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
    exactly, by multiplying rows of the identity. An output head tied to the embedding keeps its parameter too. Raises
    ValueError if this parameter differs from the recovered matrix.
    """
    width: int = weight.shape[1] if weight.numel() else module.input_size_per_partition  # type: ignore[assignment]
    identity = torch.eye(width, dtype=weight.dtype)
    multiply: Callable[..., Tensor] = module.cpu_linear  # type: ignore[assignment]
    parts = [multiply(rows.contiguous(), weight, None) for rows in identity.split(PROBE_ROWS)]
    packed = torch.cat(parts).t()
    if weight.numel() and not torch.equal(packed, weight):
        raise ValueError(f"the copy of {name} that vLLM packed for the CPU differs from the weight")
    return packed
