"""Useful floating-point operations of training: forward and backward pass, recomputation not counted. Imports no torch.

A multiplication and an addition count as two operations. Causal attention counts half, within each document of a packing.
"""

from collections.abc import Iterable

from turnsmith.training.shape import ModelShape

PEAKS = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "B200": 2250e12,
    "A100": 312e12,
    "L40S": 362e12,
}
"""Part of a GPU's name → peak bfloat16 FLOP/s of dense matrix products, from NVIDIA's data sheets. The first match counts."""


def count_flops(shape: ModelShape, lengths: Iterable[int], num_targets: int) -> float:
    """Count the useful FLOPs of forward and backward pass over documents of these lengths, in tokens.

    The output head counts for the `num_targets` tokens whose log-probs are computed.
    """
    lengths = list(lengths)
    dense = 6 * (shape.num_layers * shape.layer_matrices * sum(lengths) + shape.head_matrix * num_targets)
    return float(dense + attention_flops(shape, lengths))


def attention_flops(shape: ModelShape, lengths: Iterable[int]) -> float:
    """Count the useful FLOPs of attention: 6 · layers · query size · Σ length²."""
    return 6.0 * shape.num_layers * shape.query_size * sum(length**2 for length in lengths)


def find_peak(device_name: str) -> float | None:
    """Find the peak bfloat16 FLOP/s of a GPU by its name; None if it is not in `PEAKS`, and on CPUs."""
    return next((peak for name, peak in PEAKS.items() if name in device_name), None)
