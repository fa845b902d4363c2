"""Speeds of engine and trainer, from figures of the hardware and sizes of the model."""

from dataclasses import dataclass

from turnsmith.recipes.planning.hardware import CPU, Hardware
from turnsmith.recipes.planning.simulation import Speed
from turnsmith.recipes.planning.workload import ASSUMED_ACT_S, ASSUMED_GRADE_S
from turnsmith.training.shape import ModelShape

TRAINING_SHARE = 0.3
"""Assumed share of the peak operations that training reaches; open RL trainers reach 27 to 40 % at long contexts."""
DECODING_SHARE = 0.6
"""Assumed share of the memory bandwidth, and of the peak operations, that an engine reaches."""
STEP_S = 0.004
"""Assumed seconds of a decode step besides its arithmetic: launches, scheduling, sampling."""
LAYER_S = 0.0011
"""The same per layer of the engine in this process on a GPU, which waits for launches: measured by `bench/gpu_plan.py`."""
RECOMPUTED = {"none": 1.0, "selective": 7 / 6, "full": 8 / 6}
"""Value of `activation_checkpointing` → operations relative to those without recomputation."""


@dataclass(frozen=True)
class EngineLayout:
    """Copies of the model that sample, each on several processors."""

    num_replicas: int
    num_each: int
    """Processors of one copy."""
    kv_bytes: float
    """Memory for keys and values of one copy, in bytes; 0 if it is not limited."""
    step_s: float = STEP_S
    """Seconds of a decode step besides its arithmetic."""


def find_speed(
    shape: ModelShape, hardware: Hardware, layout: EngineLayout, mean_tokens: float, itemsize: int, scale: float
) -> Speed:
    """Return the tokens per second of one sequence as a function of the number of sequences.

    A decode step reads the weights, and the keys and values of all sequences, which on average have half of `mean_tokens`
    tokens: t = max(2·N·n / operations, (weights + n·KV) / bandwidth) + step_s. Sequences that do not fit into the memory
    of keys and values wait, so all get a smaller share.
    """  # fmt: skip
    weights, kv = itemsize * shape.num_parameters, mean_tokens / 2 * 2 * shape.num_layers * shape.key_size * itemsize
    flops, bandwidth = (layout.num_each * DECODING_SHARE * peak for peak in (hardware.flops, hardware.bandwidth))
    capacity = count_fitting(layout, 2 * kv) if layout.kv_bytes else float("inf")

    def find(num: int) -> float:
        each = num / layout.num_replicas
        active = min(each, capacity)
        step = layout.step_s + max(2 * shape.num_parameters * active / flops, (weights + active * kv) / bandwidth)
        return scale * active / each / step

    return find


def count_fitting(layout: EngineLayout, bytes_each: float) -> float:
    """Return the number of episodes whose keys and values fit into one copy, at least one."""
    return max(1.0, layout.kv_bytes / bytes_each)


def count_flops(shape: ModelShape, num_tokens: float, length: float) -> float:
    """Return the operations of forward and backward pass over sequences of `length` tokens, `num_tokens` in all.

    F = 6·N·T + 6·L·(H·d)·T² per sequence, causal attention counted as half.
    """
    multiplied = shape.num_parameters - (0 if shape.is_tied else shape.head_matrix)
    return 6 * num_tokens * (multiplied + shape.num_layers * shape.query_size * length)


def describe_hardware(hardware: Hardware) -> list[str]:
    """Describe the figures of a processor and their source in sentences."""
    kind = "float32" if hardware.name == CPU else "bfloat16"
    return [
        f"{hardware.name}: {hardware.flops / 1e12:,.2f} TFLOP/s in {kind}, {hardware.bandwidth / 1e9:,.0f} GB/s",
        f"source: {hardware.source}",
    ]


def describe_assumptions(step_s: float) -> list[str]:
    """Describe in sentences what a plan without a finished run assumes; `step_s` is the time of a step besides arithmetic."""
    return [
        f"sizes of episodes: assumed, e.g. {ASSUMED_ACT_S:g} s for a command, {ASSUMED_GRADE_S:g} s for grading; "
        "--from RUN replaces them",
        f"training reaches {TRAINING_SHARE:.0%} of the peak, the engine {DECODING_SHARE:.0%} of bandwidth and peak",
        f"a decode step takes {1_000 * step_s:.3g} ms besides its arithmetic",
    ]
