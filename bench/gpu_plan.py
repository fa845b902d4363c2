"""Benchmark of `turnsmith plan` against one GPU: memory of a run, and speeds of engine and trainer, predicted and measured.

    python bench/gpu_plan.py [--hardware h100] [--tiny] [--check]

Each case is `configs/qwen-0.5b-1gpu.toml` with a random model of other sizes and with other settings for memory. The engine
of the run opens with its cache and samples episodes of one turn. Then the run's trainer makes two optimizer steps on two full
micro-batches. The table shows the largest memory that torch has allocated, sampled tokens per second, and the seconds of the
second step. The figure of the plan stands beside each of them. Prefills count as time of sampling. `--check` exits with 1 if
a memory is not within 15 %. `--tiny` uses small shapes on a CPU, where the table has no measured memory. Needs torch,
transformers, numpy, pydantic, packaging and safetensors; without installation, `PYTHONPATH=src`.
"""

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

import gpu
from gpu_updates import Update, make_long_sample, wait
from turnsmith.algo.packing import pack
from turnsmith.config import RunConfig
from turnsmith.config.files import load
from turnsmith.engines.torch import attention
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.errors import UsageError
from turnsmith.recipes.plan import GIB, ITEMSIZES, HardwarePlan, plan_hardware
from turnsmith.recipes.planning.estimate import lay_out_engine
from turnsmith.recipes.planning.hardware import Hardware, find_hardware
from turnsmith.recipes.planning.rates import RECOMPUTED, TRAINING_SHARE, count_flops, find_speed
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.local import LocalTrainer
from turnsmith.training.memory import plan_cache
from turnsmith.training.model import find_device
from turnsmith.training.shape import read_shape
from turnsmith.types import add_tokenizer_provenance

CONFIG = Path(__file__).parents[1] / "configs/qwen-0.5b-1gpu.toml"
LIMIT = 0.15
"""Largest relative error of a predicted memory."""
NUM_MICRO_BATCHES = 2
"""Micro-batches of an optimizer step, each with as many tokens as the configuration allows."""
EPISODES = replace(gpu.HALF_BILLION, prompt=1_000, sampled=256, turns=1)


@dataclass(frozen=True)
class Case:
    """Model and settings of a run, and the episodes that its engine samples."""

    model: dict[str, Any]
    settings: str = ""
    """Flags that change the configuration."""
    episodes: gpu.Shape = EPISODES


@dataclass(frozen=True)
class Figures:
    """Figures of one case: bytes of memory, sampled tokens per second, and seconds of an optimizer step."""

    memory: float
    sampled: float
    step: float


def qwen(hidden: int, inner: int, layers: int, heads: int, keys: int, vocabulary: int = 151_936) -> dict[str, Any]:
    """Return the configuration of a Qwen2.5 model with tied embeddings."""
    return {
        "model_type": "qwen2", "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": keys, "vocab_size": vocabulary,
        "max_position_embeddings": 131_072, "tie_word_embeddings": True,
    }  # fmt: skip


def contexts(num_tokens: int) -> str:
    """Return the flags that set the context of all parts of a run."""
    return " ".join(f"--{part}.max_context {num_tokens}" for part in ("agent", "rft", "stages.0"))


def micro_batches(num_tokens: int) -> str:
    """Return the flags that limit the tokens of a micro-batch."""
    return " ".join(f"--{part}.optimizer.max_tokens_per_micro_batch {num_tokens}" for part in ("rft", "stages.0"))


LEAN = "--trainer.offload_activations true --trainer.mlp_tiles 16 --trainer.moments bfloat16"
CASES = {
    "0.5B, 16k": Case(qwen(896, 4_864, 24, 14, 2)),
    "0.5B, 8k, nothing recomputed": Case(
        qwen(896, 4_864, 24, 14, 2),
        f"{contexts(8_192)} {micro_batches(16_384)} --trainer.activation_checkpointing none",
    ),
    "1.5B, 16k, selective": Case(qwen(1_536, 8_960, 28, 12, 2), "--trainer.activation_checkpointing selective"),
    "3B, 65k, offloaded, tiles, bfloat16 moments": Case(qwen(2_048, 11_008, 36, 16, 2), f"{contexts(65_536)} {LEAN}"),
}
FEW = "--engine.kv_memory_gb 0.01 --rollouts.concurrency 4"
TINY = {
    "tiny": Case(qwen(64, 128, 2, 4, 2, vocabulary=512), f"{contexts(256)} {micro_batches(256)} {FEW}", gpu.TINY),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hardware", default="h100", help="name of the processor in the plan")
    parser.add_argument("--tiny", action="store_true", help="small shapes on a CPU")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a memory is not within 15 %%")
    asked = parser.parse_args()
    device = find_device("cpu" if asked.tiny else "cuda")
    misses = list(run(TINY if asked.tiny else CASES, find_hardware(asked.hardware), device))
    for miss in misses:
        print(f"missed: {miss}")
    sys.exit(1 if misses and asked.check else 0)


def run(cases: dict[str, Case], hardware: Hardware, device: torch.device) -> Iterator[str]:
    """Measure and print each case. Yield those whose memory is not within the limit, in words."""
    titles = ("memory, GiB", "sampled tokens/s", "seconds of a step")
    print(f"{'planned / measured':46}" + "".join(f"{title:>28}" for title in titles))
    for name, case in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            config = make_config(case, Path(folder))
            predicted = predict(case, config, hardware)
            try:
                measured = asyncio.run(measure(case, config, device))
            except (torch.OutOfMemoryError, UsageError) as error:
                yield f"{name}: {error}"
                continue
        print(f"{name:46}" + "".join(describe(*pair) for pair in zip(scale(predicted), scale(measured), strict=True)))
        if measured.memory and abs(predicted.memory / measured.memory - 1) > LIMIT:
            yield f"{name}: the memory is not within {LIMIT:.0%}"
        gc.collect()
        torch.cuda.empty_cache()


def scale(figures: Figures) -> tuple[float, float, float]:
    return figures.memory / GIB, figures.sampled, figures.step


def describe(predicted: float, measured: float) -> str:
    error = f"{predicted / measured - 1:+.0%}" if measured else "-"
    return f"{predicted:>11.4g}{measured:>10.4g}{error:>7}"


def make_config(case: Case, folder: Path) -> RunConfig:
    """Read the configuration of a case, with a model directory that has no weights."""
    (folder / "config.json").write_text(json.dumps(case.model))
    return load(CONFIG, f"--model.path {folder} {case.settings}".split(), RunConfig)


def predict(case: Case, config: RunConfig, hardware: Hardware) -> Figures:
    """Predict the figures of a case by the functions of the plan."""
    plan, shape = plan_hardware(config), read_shape(Path(config.model.path))
    layout, itemsize = lay_out_engine(config, hardware, shape), ITEMSIZES[config.model.dtype]
    find = find_speed(shape, hardware, layout, case.episodes.context, itemsize, 1.0)
    work = NUM_MICRO_BATCHES * count_flops(shape, plan.num_tokens, plan.num_tokens)
    passes = RECOMPUTED[config.trainer.activation_checkpointing]
    num = config.rollouts.concurrency
    return Figures(plan.peak, num * find(num), passes * work / (TRAINING_SHARE * hardware.flops))


async def measure(case: Case, config: RunConfig, device: torch.device) -> Figures:
    """Sample and train as a run of the configuration does; return what was measured."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    num_blocks, plan = plan_cache(config, Path(config.model.path)), plan_hardware(config)
    model, dtype = make_model(case, config, device), getattr(torch, config.model.dtype)
    engine = InProcessEngine(model, max_context=case.episodes.context, num_blocks=num_blocks, dtype=dtype)
    await gpu.collect(engine, case.episodes, 8, seed=0)
    started = time.perf_counter()
    samples = await gpu.collect(engine, case.episodes, config.rollouts.concurrency, seed=1)
    sampled = sum(sample.num_loss_tokens for sample in samples) / (time.perf_counter() - started)
    step = await measure_step(make_trainer(config, model), case, plan)
    engine.close()
    return Figures(torch.cuda.max_memory_allocated() if device.type == "cuda" else 0.0, sampled, step)


def make_model(case: Case, config: RunConfig, device: torch.device) -> PreTrainedModel:
    sizes = {key: value for key, value in case.model.items() if key != "model_type"}
    torch.manual_seed(0)
    with device:
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(case.model["model_type"], **sizes), dtype=torch.float32, attn_implementation=attention.NAME
        )  # fmt: skip
    limit_activations(model.eval(), config.trainer)
    return model


def make_trainer(config: RunConfig, model: PreTrainedModel) -> LocalTrainer:
    optimizer, trainer = config.stages[0].optimizer, config.trainer
    return LocalTrainer(model, optimizer, dtype=getattr(torch, config.model.dtype), moments=trainer.moments)


async def measure_step(trainer: LocalTrainer, case: Case, plan: HardwarePlan) -> float:
    """Return the seconds of the second of two optimizer steps on full micro-batches."""
    update = Update("qwen2", plan.num_tokens, case.model)
    sample = make_long_sample(update)
    names = (f"long-{number}" for number in range(NUM_MICRO_BATCHES))
    samples = [add_tokenizer_provenance(replace(sample, trajectory_id=name)) for name in names]
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        await trainer.step(pack(samples, plan.num_tokens), gpu.policy_gradient)
        wait(trainer.model.device)
        seconds = time.perf_counter() - started
    return seconds


if __name__ == "__main__":
    main()
