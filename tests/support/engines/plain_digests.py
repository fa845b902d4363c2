"""Digests of `turnsmith_vllm.digests`, computed in plain Python without torch."""

import re

import numpy as np

ALL = 2**64


def digest_layers(weights: dict[str, np.ndarray]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, array in weights.items():
        found = re.search(r"\.(\d+)\.", name)
        layer = found[1] if found else ""
        rows = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(-1, 1)
        sums[layer] = (sums.get(layer, 0) + sum(hash_row(row) for row in rows)) % ALL
    return sums


def hash_row(row: np.ndarray) -> int:
    words = (row + row.dtype.type(0)).view(np.dtype(f"<i{row.itemsize}")).tolist()
    factors = (mix(column * 0x9E3779B97F4A7C15 % ALL) | 1 for column in range(1, len(words) + 1))
    return mix(sum(word * factor for word, factor in zip(words, factors, strict=True)) % ALL)


def mix(number: int) -> int:
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % ALL
    number = (number ^ number >> 27) * 0x94D049BB133111EB % ALL
    return number ^ number >> 31
