"""Compiled attention of decode steps on CPUs, for keys and values in float32 or bfloat16. It computes in float32.

It reads each cached key and value once, in memory order, and prefetches the next block. A step over long histories takes
about as long as reading the cache. The softmax is computed online (arXiv 1805.02867, algorithm 3).
"""

from contextlib import suppress
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import float32, int32, types, uint16, uint32
from numba.core import cgutils
from numba.extending import intrinsic, overload
from torch import Tensor

from turnsmith.engines.torch.blocks import Span

try:
    import numba.np.ufunc.omppool
except ImportError:
    HAS_OPENMP = False
else:
    HAS_OPENMP = True
    numba.config.THREADING_LAYER = "omp"  # torch's thread pool; two pools would wait for each other

LINE = 16
"""Number of float32 values in a cache line of the CPU; one prefetch per line loads the next block, two if it is bfloat16."""

REORDERED = {"reassoc", "contract", "nsz"}
"""Fast-math flags of the compiler that may reorder sums but keep NaN, which the engine detects."""

READ_AS = {torch.float32: torch.float32, torch.bfloat16: torch.uint16}
"""Dtype in which compiled code reads cached keys and values, by their own dtype: NumPy has no bfloat16."""

LOWEST = float32(-87)
"""Lowest integer x for which e^x is a normal float32. Lower x are raised to it, since such attention weights are negligible."""


def can_compile(device: torch.device, dtype: torch.dtype) -> bool:
    """Return True if compiled attention is available: CPU, a dtype of `READ_AS`, and GNU OpenMP (Debian package libgomp1)."""
    return device.type == "cpu" and dtype in READ_AS and HAS_OPENMP


class CompiledDecoding:
    """Compiled attention of a decode step: each query token attends to the cached keys of its own sequence."""

    def __init__(self, spans: list[Span], device: torch.device) -> None:
        self.num_tokens = len(spans)
        self._blocks = np.array([block for span in spans for block in span.seen])
        self._starts = np.cumsum([0, *(len(span.seen) for span in spans)])
        self._lengths = np.array([span.end for span in spans])

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None) -> Tensor:
        """Compute attention of queries `[heads, tokens, head_dim]` to cached blocks; return `[tokens, heads, head_dim]`."""
        scale = query.shape[2] ** -0.5 if scaling is None else scaling
        scaled = (query.float() * scale).transpose(0, 1).contiguous()
        output = torch.zeros_like(scaled)
        stored = (tensor.view(READ_AS[tensor.dtype]) for tensor in (keys, values))
        share_threads()
        arrays = (tensor.numpy() for tensor in (scaled, *stored, output))
        attend_all(*arrays, self._blocks, self._starts, self._lengths)
        return output.to(values.dtype)


def share_threads() -> None:
    """Set the number of numba's threads to that of torch."""
    num_threads = torch.get_num_threads()
    numba.set_num_threads(min(num_threads, numba.config.NUMBA_NUM_THREADS))
    torch.set_num_threads(num_threads)  # the first call of numba sets their common pool to all cores


@intrinsic
def prefetch(context: Any, numbers: Any, index: Any) -> Any:
    """Prefetch the CPU cache line of an array element, given the element's index in the flat array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(array.data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, into_second_level, data = number(0), number(1), number(1)
        builder.call(function, [address, to_read, into_second_level, data])
        return context.get_dummy_value()

    return types.void(numbers, index), generate


def widen(stored: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Return keys or values in float32, from bfloat16 through the buffer `bits` (uint32): it is the upper half of a float32."""
    raise NotImplementedError("only compiled code calls this function")


@overload(widen)
def compile_widening(stored: Any, bits: Any) -> Any:
    """Return the implementation of `widen` for the dtype of the stored values."""

    def shift(stored: Any, bits: Any) -> Any:
        for token in range(len(stored)):
            for index in range(stored.shape[1]):
                bits[token, index] = uint32(stored[token, index]) << uint32(16)
        return bits.view(np.float32)

    def keep(stored: Any, bits: Any) -> Any:
        return stored

    return shift if stored.dtype == uint16 else keep


@numba.njit(fastmath=REORDERED)
def score(query: np.ndarray, keys: np.ndarray, scores: np.ndarray, following: np.ndarray) -> np.float32:
    """Write the dot products of a query with each key into `scores`; return the highest. Prefetch the next block's keys."""
    highest = float32(-np.inf)
    for token in range(len(scores)):
        for index in range(0, len(query), LINE):
            prefetch(following, token * len(query) + index)
        product = float32(0)
        for index in range(len(query)):
            product += query[index] * keys[token, index]
        scores[token] = product
        highest = max(highest, product)
    return highest


@numba.njit(fastmath=REORDERED)
def exponentiate(scores: np.ndarray, powers: np.ndarray, highest: float) -> np.float32:
    """Replace scores by e^(score - highest) in place and return their sum. `powers` is an integer buffer of equal length.

    The exponential is a power of two times a series, since `np.exp` does not vectorise and makes a step an eighth slower.
    """
    for token in range(len(scores)):
        exponent = scores[token] - highest
        if exponent < LOWEST:
            exponent = LOWEST
        power = np.floor(exponent * float32(1 / np.log(2)) + float32(0.5))
        x = exponent - power * float32(np.log(2))
        powers[token] = (int32(power) + 127) << 23  # the float 2^power, by its bits
        scores[token] = 1 + x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6)))))
    total = float32(0)
    for token in range(len(scores)):
        scores[token] *= powers.view(np.float32)[token]
        total += scores[token]
    return total


@numba.njit(fastmath=REORDERED)
def add(weights: np.ndarray, values: np.ndarray, sums: np.ndarray, following: np.ndarray) -> None:
    """Multiply a block's values by the attention weights and add them to `sums`. Prefetch the next block's values."""
    whole = len(weights) // 4 * 4
    for token in range(0, whole, 4):
        for index in range(0, 4 * len(sums), LINE):
            prefetch(following, token * len(sums) + index)
        a, b, c, d = weights[token], weights[token + 1], weights[token + 2], weights[token + 3]
        for index in range(len(sums)):
            first, second = a * values[token, index], b * values[token + 1, index]
            third, fourth = c * values[token + 2, index], d * values[token + 3, index]
            sums[index] += (first + second) + (third + fourth)
    for token in range(whole, len(weights)):
        for index in range(len(sums)):
            sums[index] += weights[token] * values[token, index]


@numba.njit(fastmath=REORDERED)
def attend_one(
    query: np.ndarray, keys: np.ndarray, values: np.ndarray, output: np.ndarray, blocks: np.ndarray, length: int
) -> None:
    """Compute the attention of one query token `[heads, head_dim]` over `length` cached tokens. `output` must start as zeros."""
    heads, (_, key_heads, size, head_dim) = len(query), keys.shape
    group = heads // key_heads
    scores, powers = np.empty(size, np.float32), np.empty(size, np.int32)
    bits_of_keys, bits_of_values = np.empty((size, head_dim), np.uint32), np.empty((size, head_dim), np.uint32)
    highest, totals = np.full(heads, -np.inf, np.float32), np.zeros(heads, np.float32)
    for at in range(len(blocks)):
        block, following = blocks[at], blocks[min(at + 1, len(blocks) - 1)]
        seen = scores[: min(size, length - at * size)]
        for read in range(key_heads):
            wide_keys, wide_values = widen(keys[block, read], bits_of_keys), widen(values[block, read], bits_of_values)
            for head in range(read * group, (read + 1) * group):
                top = score(query[head], wide_keys, seen, keys[following, read])
                if top > highest[head]:
                    rescale = np.exp(highest[head] - top)
                    totals[head] *= rescale
                    output[head] *= rescale
                    highest[head] = top
                totals[head] += exponentiate(seen, powers, highest[head])
                add(seen, wide_values, output[head], values[following, read])
    for head in range(heads):
        output[head] /= totals[head]


@numba.njit(parallel=True, nogil=True)
def attend_all(
    queries: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    output: np.ndarray,
    blocks: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
) -> None:
    """Compute the attention of all query tokens, each over the cache blocks of its sequence, in parallel threads."""
    for row in numba.prange(len(queries)):
        read = blocks[starts[row] : starts[row + 1]]
        attend_one(queries[row], keys, values, output[row], read, lengths[row])


# Cache the compiled code if a cache folder is writable; else each process compiles it, in six seconds.
with suppress(RuntimeError):
    attend_all.enable_caching()
