"""Account of optimizer steps: tokens, useful FLOPs and seconds, as metrics of a step and of an iteration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from turnsmith.algo.algorithm import Metrics
from turnsmith.algo.prefixes import find_families
from turnsmith.training.flops import count_flops, find_peak
from turnsmith.training.shape import ModelShape
from turnsmith.types import MicroBatch

GROUPS = ("time/", "tokens/", "compute/")
"""Groups of metrics that form the account."""
UPDATE = "time/update_s"
"""Seconds of a whole optimizer step; the other `time/` metrics of a step are parts of it."""


@dataclass(frozen=True)
class StepWork:
    """Work of one optimizer step on all ranks together."""

    num_tokens: int
    num_loss_tokens: int
    num_padding: int
    """Computed tokens that belong to no sample."""
    flops: float
    """Useful FLOPs of forward and backward pass (`training.flops`)."""


def count_work(shape: ModelShape, micro_batches: Sequence[MicroBatch], num_padding: int = 0) -> StepWork:
    """Count the work of an optimizer step over packed samples; a shared prefix counts once."""
    lengths = [len(sample) for micro_batch in micro_batches for sample in micro_batch.samples]
    spared = [
        prefix for micro_batch in micro_batches if micro_batch.share_prefixes for prefix in list_spared(micro_batch)
    ]
    num_loss_tokens = sum(micro_batch.num_loss_tokens for micro_batch in micro_batches)
    flops = count_flops(shape, lengths, num_loss_tokens) - count_flops(shape, spared, 0)
    return StepWork(sum(lengths) - sum(spared), num_loss_tokens, num_padding, flops)


def list_spared(micro_batch: MicroBatch) -> list[int]:
    """List the length of a shared prefix once for each sample that reads it from another one's copy."""
    return [each.prefix for each in find_families(micro_batch.samples) for _ in each.suffixes[1:]]


def describe_step(
    work: StepWork, seconds: Mapping[str, float], device: torch.device, dtype: torch.dtype, num_ranks: int = 1
) -> Metrics:
    """Return the metrics of a step from its work and the seconds of its parts, of which `update` is the whole.

    `compute/mfu` is left out on CPUs, on GPUs that `training.flops.PEAKS` does not hold, and if layers compute in float32.
    """
    update, rate = seconds["update"], work.flops / seconds["update"] / num_ranks
    peak = find_peak(torch.cuda.get_device_name(device)) if device.type == "cuda" and dtype.itemsize == 2 else None
    return {
        "tokens/trained": float(work.num_tokens),
        "tokens/in_loss": float(work.num_loss_tokens),
        "tokens/padding": float(work.num_padding),
        "tokens/trained_per_s": work.num_tokens / update,
        "tokens/in_loss_per_s": work.num_loss_tokens / update,
        "compute/tflops_per_rank": rate / 1e12,
        **({"compute/mfu": rate / peak} if peak else {}),
        **{f"time/{part}_s": value for part, value in seconds.items()},
    }


def merge_accounts(steps: Sequence[Metrics]) -> Metrics:
    """Merge the accounts of steps: rates by their mean over time, other numbers by their sum. Empty without an account."""
    accounts = [{name: value for name, value in step.items() if name.startswith(GROUPS)} for step in steps]
    if not all(UPDATE in account for account in accounts):
        return {}
    total = sum(account[UPDATE] for account in accounts)
    return {
        name: sum(account[name] * (account[UPDATE] / total if _is_rate(name) else 1.0) for account in accounts)
        for name in accounts[0]
    }


def leave_out_account(step: Metrics) -> Metrics:
    """Return the metrics of a step that do not belong to its account."""
    return {name: value for name, value in step.items() if not name.startswith(GROUPS)}


def _is_rate(name: str) -> bool:
    return name.endswith("_per_s") or name.startswith("compute/")
