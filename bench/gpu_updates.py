"""Benchmark of optimizer steps on one long sequence on one GPU, against plain transformers.

    python bench/gpu_updates.py [--device auto] [--tiny] [--check]

Models are random, in the shapes of Qwen3-0.6B and 4B (65,536 tokens) and Qwen2.5-7B (131,072 tokens). Plain transformers makes
the same step by its own loss over all tokens, with its gradient checkpointing. The second of two steps is measured. MFU counts
causal attention half (`turnsmith.training.flops`). The last row compares the copy of weights into an engine's model with a
device copy. With `--check` the script exits with 1 if a required figure is missed.
"""

import argparse
import asyncio
import gc
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from gpu import make_sample, peak_gib, policy_gradient, random_tokens, reset_peak
from turnsmith.algo.packing import pack
from turnsmith.config import OptimizerConfig
from turnsmith.config.training import TrainerConfig
from turnsmith.engines.torch import attention
from turnsmith.engines.torch.precision import computing_in
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.local import LocalTrainer
from turnsmith.training.model import find_device
from turnsmith.types import Sample

DTYPE = torch.bfloat16
LOSS_SHARE = 0.15


@dataclass(frozen=True)
class Required:
    """Required figures of a step: least MFU, least speed as a multiple of plain transformers', largest peak in GiB."""

    mfu: float = 0.0
    speed: float = 0.0
    peak: float = math.inf


@dataclass(frozen=True)
class Update:
    """Model and length of a step, the trainer's settings for memory, and required figures."""

    kind: str
    tokens: int
    sizes: dict[str, Any]
    trainer: TrainerConfig = field(default_factory=lambda: TrainerConfig(activation_checkpointing="full"))
    required: Required = Required()


Figures = dict[str, float]
Step = Callable[[], Figures]
Prepare = Callable[[Update, torch.device], Step]


def sizes(
    vocabulary: int, hidden: int, inner: int, layers: int, heads: tuple[int, int, int], tied: bool
) -> dict[str, Any]:
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    values = (vocabulary, hidden, inner, layers, heads[0])
    rest = {"num_key_value_heads": heads[1], "head_dim": heads[2], "tie_word_embeddings": tied}
    return dict(zip(names, values, strict=True)) | rest | {"max_position_embeddings": 131_072}


LEAN = TrainerConfig(activation_checkpointing="full", offload_activations=True, mlp_tiles=16, moments="bfloat16")
UPDATES = {
    "0.6B": Update(
        "qwen3", 65_536, sizes(151_936, 1_024, 3_072, 28, (16, 8, 128), tied=True), required=Required(0.35, 2)
    ),
    "4B": Update(
        "qwen3", 65_536, sizes(151_936, 2_560, 9_728, 36, (32, 8, 128), tied=True), required=Required(0.35, 2)
    ),
    "7B": Update(
        "qwen2", 131_072, sizes(152_064, 3_584, 18_944, 28, (28, 4, 128), tied=False), LEAN, Required(0.33, peak=132)
    ),
}
REQUIRED_COPY = 1.5
"""Largest time to load weights into an engine's model, as a multiple of a device copy of as many bytes."""
TINY = {
    "tiny": Update("qwen3", 256, sizes(512, 64, 128, 2, (4, 2, 16), tied=True)),
    "tiny, lean": Update("qwen2", 256, sizes(512, 64, 128, 2, (4, 2, 16), tied=False), LEAN),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"], help="device of the models")
    parser.add_argument("--tiny", action="store_true", help="shapes for a CPU")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a required figure is missed")
    arguments = parser.parse_args()
    misses = list(run(TINY if arguments.tiny else UPDATES, find_device(arguments.device)))
    for miss in misses:
        print(f"missed: {miss}")
    sys.exit(1 if misses and arguments.check else 0)


def run(updates: dict[str, Update], device: torch.device) -> Iterator[str]:
    """Measure and print each row. Yield missed figures in words."""
    print(f"  {'':34}{'seconds':>10}{'tokens/s':>12}{'MFU':>8}{'peak GiB':>10}")
    for name, update in updates.items():
        own, plain = (measure(update, device, prepare) for prepare in (prepare_ours, prepare_plain))
        print_row(f"{name}, {update.tokens} tokens, turnsmith", own)
        print_row(f"{name}, {update.tokens} tokens, transformers", plain)
        yield from find_misses(name, update.required, own, plain)
    copied, plain_copy = measure_hand_over(next(iter(updates.values())), device)
    print(f"  {'weights to an engine':34}{copied:>10.3g}\n  {'device copy':34}{plain_copy:>10.3g}")
    if copied > REQUIRED_COPY * plain_copy:
        yield f"weights to an engine take {copied / plain_copy:.2f} × a device copy, required {REQUIRED_COPY}"


def find_misses(name: str, required: Required, own: Figures | None, plain: Figures | None) -> Iterator[str]:
    """Yield the required figures of a step that are missed, in words."""
    if own is None:
        yield f"{name} does not fit"
        return
    if own.get("mfu", 0.0) < required.mfu:
        yield f"{name}: MFU {own.get('mfu', 0.0):.1%}, required {required.mfu:.0%}"
    if plain and plain["seconds"] < required.speed * own["seconds"]:
        yield f"{name}: {plain['seconds'] / own['seconds']:.2f} × as fast as transformers, required {required.speed} ×"
    if own["peak"] > required.peak:
        yield f"{name}: peak {own['peak']:.1f} GiB, required {required.peak} GiB"


def measure(update: Update, device: torch.device, prepare: Prepare) -> Figures | None:
    """Make two steps; return the figures of the second, or None if memory is too small."""
    torch.manual_seed(0)
    try:
        step = prepare(update, device)
        step()
        reset_peak(device)
        started = time.perf_counter()
        figures = step()
        wait(device)
        return figures | {"seconds": time.perf_counter() - started, "tokens": update.tokens, "peak": peak_gib(device)}
    except torch.OutOfMemoryError:
        return None
    finally:
        step = None  # type: ignore[assignment]
        gc.collect()
        torch.cuda.empty_cache()


def print_row(name: str, figures: Figures | None) -> None:
    if figures is None:
        print(f"  {name:34}  does not fit")
        return
    rate, mfu = figures["tokens"] / figures["seconds"], figures.get("mfu")
    print(
        f"  {name:34}{figures['seconds']:>10.3g}{rate:>12.4g}{f'{mfu:.1%}' if mfu else '':>8}{figures['peak']:>10.3g}"
    )


def make_random_model(update: Update, device: torch.device, implementation: str) -> PreTrainedModel:
    config = AutoConfig.for_model(update.kind, **update.sizes)
    with device:
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=implementation)


def make_long_sample(update: Update) -> Sample:
    rng = random.Random(0)
    mask = [False] + [rng.random() < LOSS_SHARE for _ in range(update.tokens - 1)]
    token_ids = random_tokens(rng, update.tokens, update.sizes["vocab_size"])
    return make_sample("long", "long", token_ids, mask, [0.0] * update.tokens, 1.0)


def prepare_ours(update: Update, device: torch.device) -> Step:
    """Return a function that makes one optimizer step of the package's trainer."""
    model = make_random_model(update, device, attention.NAME).eval()
    limit_activations(model, update.trainer)
    optimizer = OptimizerConfig(max_tokens_per_micro_batch=update.tokens)
    trainer = LocalTrainer(model, optimizer, dtype=DTYPE, moments=update.trainer.moments)
    batches = pack([make_long_sample(update)], update.tokens)

    def step() -> Figures:
        metrics = asyncio.run(trainer.step(batches, policy_gradient))
        return {"mfu": metrics["compute/mfu"]} if "compute/mfu" in metrics else {}

    return step


def prepare_plain(update: Update, device: torch.device) -> Step:
    """Return a function that makes one optimizer step of plain transformers on the same tokens."""
    model = make_random_model(update, device, "sdpa").train()
    # The second name is that of older releases of transformers.
    getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    token_ids = torch.tensor(make_long_sample(update).token_ids, dtype=torch.long, device=device)[None]

    def step() -> Figures:
        optimizer.zero_grad()
        with computing_in(DTYPE, device):
            loss = model(input_ids=token_ids, labels=token_ids, use_cache=False).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {}

    return step


@torch.no_grad()
def measure_hand_over(update: Update, device: torch.device) -> tuple[float, float]:
    """Return the seconds to load weights into another model in this process, and to copy as many bytes on the device."""
    source, target = (make_random_model(update, device, "sdpa") for _ in range(2))
    buffers = [torch.empty(sum(p.numel() for p in source.parameters()), device=device) for _ in range(2)]
    handed = time_best(lambda: target.load_state_dict(source.state_dict()), device)
    return handed, time_best(lambda: buffers[1].copy_(buffers[0]), device)


def time_best(work: Callable[[], object], device: torch.device) -> float:
    """Return the seconds of the fastest of three calls after a warm-up."""
    seconds = []
    for _ in range(4):
        wait(device)
        started = time.perf_counter()
        work()
        wait(device)
        seconds.append(time.perf_counter() - started)
    return min(seconds[1:])


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
