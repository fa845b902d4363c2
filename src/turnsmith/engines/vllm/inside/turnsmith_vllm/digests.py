"""Digests of weights, made on both sides of a hand-over: of bytes that travel, and of what a model then computes with.

The second is a sum over hashes of rows, for each layer. vLLM stacks the rows of several matrices into one (queries, keys and
values; gate and up) and adds rows of zeros; a sum does not see that. One changed number changes the hash of its row for certain;
several changed ones cancel each other once in 2**64. What the sum does not see: rows that changed places within a layer, and the
sign of a zero. Bytes that arrived in order, checked by the first digest, leave only a loader that puts a matrix in the
place of another of the same layer and width.
"""

import hashlib
import re
from collections.abc import Iterable

import torch
from torch import Tensor

CHUNK_NUMBERS = 2**22
"""Numbers that are hashed at once; each takes some 8 bytes meanwhile."""

WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""The integer of as many bytes as a number of the weights."""


def digest_bytes(tensor: Tensor) -> str:
    """32 hex digits over all bytes of a contiguous tensor on the CPU."""
    data = tensor.detach().reshape(-1).view(torch.uint8).numpy().data
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def digest_layers(weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype) -> dict[str, int]:
    """The sum of the row hashes of each layer, its numbers in `dtype`; what belongs to no layer is under ''."""
    sums: dict[str, int] = {}
    for name, tensor in weights:
        layer = layer_of(name)
        sums[layer] = (sums.get(layer, 0) + sum_rows(tensor.detach().to(dtype))) % 2**64
    return sums


def layer_of(name: str) -> str:
    """Number of the layer that a weight belongs to."""
    found = re.search(r"\.(\d+)\.", name)
    return found[1] if found else ""


def sum_rows(tensor: Tensor) -> int:
    """Sum of the hashes of all rows, modulo 2**64. A vector is a column: each number is a row."""
    rows = tensor.reshape(-1, tensor.shape[-1]) if tensor.dim() > 1 else tensor.reshape(-1, 1)
    width = max(1, rows.shape[1])
    factors = odd_factors(width, rows.device)
    total = 0
    for chunk in rows.split(max(1, CHUNK_NUMBERS // width)):
        # Minus zero becomes zero, as in a product of matrices.
        words = (chunk + 0.0).contiguous().view(WORDS[chunk.element_size()]).long()
        total += int(mix((words * factors).sum(1)).sum())
    return total % 2**64


def odd_factors(count: int, device: torch.device) -> Tensor:
    """A fixed odd number for each column, int64: what is odd can be divided by, so no change of a single number is lost."""
    return mix(torch.arange(1, count + 1, device=device) * -7046029254386353131) | 1


def mix(numbers: Tensor) -> Tensor:
    """Each int64 to another one, without order between them; zero stays zero (finalizer of SplitMix64)."""
    numbers = (numbers ^ shift(numbers, 30)) * -4658895280553007687
    numbers = (numbers ^ shift(numbers, 27)) * -7723592293110705685
    return numbers ^ shift(numbers, 31)


def shift(numbers: Tensor, bits: int) -> Tensor:
    """To the right, zeros coming in from the left."""
    return (numbers >> bits) & (2 ** (64 - bits) - 1)
