"""Benchmark of the RL loop on one GPU: a random model in the shape of Qwen2.5-0.5B, without tasks and sandboxes.

    python bench/gpu.py [--episodes 64] [--rounds 3] [--device auto] [--tiny] [--check-kernels]

In each round the engine samples multi-turn episodes, the trainer scores them and makes optimizer steps, and the engine loads the
new weights. Then the trainer makes one optimizer step on a single sequence of 65,536 tokens. Layers compute in bfloat16 over
float32 weights, and activations are recomputed. The first round is a warm-up; the table shows medians of the others. `--tiny`
runs the same with shapes for a CPU. `--check-kernels` instead compares the attention paths with plain attention, and exits with 1
if one is wrong. Needs torch, transformers, numpy, pydantic, packaging and safetensors; without installation, `PYTHONPATH=src`.
"""

import argparse
import asyncio
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from gpu_kernels import check_kernels
from turnsmith.algo.algorithm import Metrics
from turnsmith.algo.packing import pack
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import OptimizerConfig
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch import attention
from turnsmith.engines.torch.blocks import GIB, size_cache
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.training.activations.checkpointing import recompute_layers
from turnsmith.training.flops import count_flops
from turnsmith.training.local import LocalTrainer
from turnsmith.training.memory import free_bytes
from turnsmith.training.model import find_device
from turnsmith.training.shape import find_shape
from turnsmith.types import Sample, add_tokenizer_provenance

DTYPE = torch.bfloat16
NUM_STEPS = 2
"""Optimizer steps per round."""
LOSS_SHARE = 0.15
"""Share of the long sequence in the loss: about the sampled share of a real trajectory."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the model and of its episodes."""

    model: dict[str, int | bool]
    prompt: int
    sampled: int
    observed: int
    turns: int
    long_tokens: int

    @property
    def context(self) -> int:
        return self.prompt + self.turns * (self.sampled + self.observed)


HALF_BILLION = Shape(
    model={
        "vocab_size": 151_936, "hidden_size": 896, "intermediate_size": 4_864, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 131_072, "tie_word_embeddings": True,
    },
    prompt=2_000, sampled=128, observed=384, turns=12, long_tokens=65_536,
)  # fmt: skip
TINY = Shape(
    model={
        "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4_096, "tie_word_embeddings": True,
    },
    prompt=40, sampled=8, observed=16, turns=3, long_tokens=512,
)  # fmt: skip


@dataclass
class Figures:
    """Measured values of each line of the table."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def note(self, **values: float) -> None:
        """Append one value to each named line."""
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)


def main() -> None:
    arguments = parse_arguments()
    shape, device = TINY if arguments.tiny else HALF_BILLION, find_device(arguments.device)
    torch.manual_seed(0)
    if arguments.check_kernels:
        sys.exit(0 if check_kernels(device) else 1)
    asyncio.run(measure(shape, device, arguments.episodes, arguments.rounds))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=64, help="concurrent episodes, in groups of eight siblings")
    parser.add_argument("--rounds", type=int, default=3, help="rounds after the warm-up")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"], help="device of the model")
    parser.add_argument("--tiny", action="store_true", help="shapes for a CPU")
    parser.add_argument("--check-kernels", action="store_true", help="compare attention with plain attention, and exit")
    return parser.parse_args()


async def measure(shape: Shape, device: torch.device, num_episodes: int, num_rounds: int) -> None:
    """Warm up, run the rounds and the long step, and print the table."""
    model = make_model(shape, device)
    engine, trainer = make_engine(model, shape, num_episodes), make_trainer(model, shape)
    await play_round(engine, trainer, shape, num_episodes, seed=0)
    rounds, long = Figures(), Figures()
    for seed in range(1, num_rounds + 1):
        rounds.note(**await play_round(engine, trainer, shape, num_episodes, seed))
    for seed in range(2):
        long.note(**await step_long(trainer, shape, seed))
    engine.close()
    print_table(shape, device, num_episodes, rounds, long)


def make_model(shape: Shape, device: torch.device) -> PreTrainedModel:
    config = AutoConfig.for_model("qwen2", **shape.model)
    with device:
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention.NAME)
    recompute_layers(model.eval())
    return model


def make_engine(model: PreTrainedModel, shape: Shape, num_episodes: int) -> InProcessEngine:
    budget = 0.4 * free_bytes(model.device)
    num_blocks = size_cache(model.config, DTYPE, max_context=shape.context, num_episodes=num_episodes, num_bytes=budget)
    return InProcessEngine(model, max_context=shape.context, num_blocks=num_blocks, dtype=DTYPE)


def make_trainer(model: PreTrainedModel, shape: Shape) -> LocalTrainer:
    optimizer = OptimizerConfig(learning_rate=1e-6, max_tokens_per_micro_batch=max(shape.long_tokens, shape.context))
    return LocalTrainer(model, optimizer, dtype=DTYPE)


async def play_round(
    engine: InProcessEngine, trainer: LocalTrainer, shape: Shape, num_episodes: int, seed: int
) -> dict[str, float]:
    """Sample, score, train and publish weights. Return the figures of each part."""
    reset_peak(trainer.model.device)
    stopwatch, before = Stopwatch(trainer.model.device), engine.prefilled_tokens
    samples = await collect(engine, shape, num_episodes, seed)
    collected_s = stopwatch.lap()
    batches = pack(samples, trainer.config.max_tokens_per_micro_batch)
    scored = await trainer.logprobs(batches)
    scored_s = stopwatch.lap()
    for part in (samples[index::NUM_STEPS] for index in range(NUM_STEPS)):
        await trainer.step(pack(part, trainer.config.max_tokens_per_micro_batch), policy_gradient)
    trained_s = stopwatch.lap()
    await engine.load_weights(await trainer.publish())
    num_tokens = sum(len(sample) for sample in samples)
    gaps = np.concatenate([np.abs(scored[s.trajectory_id] - s.sampled_logprobs)[s.loss_mask] for s in samples])
    return {
        "generated tokens/s": sum(sample.num_loss_tokens for sample in samples) / collected_s,
        "prefilled tokens/s at the same time": (engine.prefilled_tokens - before) / collected_s,
        "scored tokens/s": num_tokens / scored_s,
        "trained tokens/s": num_tokens / trained_s,
        "publish, ms": 1_000 * stopwatch.lap(),
        "log-prob gap, mean": float(gaps.mean()),
        "log-prob gap, max": float(gaps.max()),
        "peak memory, GiB": peak_gib(trainer.model.device),
    }


async def collect(engine: InProcessEngine, shape: Shape, num_episodes: int, seed: int) -> list[Sample]:
    """Sample episodes in groups of eight siblings that share a prompt."""
    return list(await asyncio.gather(*(play(engine, shape, index, seed) for index in range(num_episodes))))


async def play(engine: InProcessEngine, shape: Shape, index: int, seed: int) -> Sample:
    """Sample one episode, with random tokens as observations."""
    vocabulary, name = int(shape.model["vocab_size"]), f"{seed}-{index}"
    token_ids = random_tokens(random.Random(f"{seed} {index // 8}"), shape.prompt, vocabulary)
    mask, logprobs, rng = [False] * shape.prompt, [0.0] * shape.prompt, random.Random(f"{seed} {index} observed")
    for turn in range(shape.turns):
        turn_seed = (seed * 10_000 + index) * shape.turns + turn
        request = GenerateRequest(name, np.array(token_ids), shape.sampled, frozenset(), turn_seed)
        answer = await engine.generate(request)
        observed = random_tokens(rng, shape.observed, vocabulary)
        token_ids += [*answer.token_ids.tolist(), *observed]
        mask += [True] * shape.sampled + [False] * shape.observed
        logprobs += [*answer.logprobs.tolist(), *[0.0] * shape.observed]
    engine.release(name)
    return make_sample(name, str(index // 8), token_ids, mask, logprobs, (-1.0) ** index)


def make_sample(
    name: str, group: str, token_ids: list[int], mask: list[bool], logprobs: list[float], advantage: float
) -> Sample:
    advantages = np.full(len(token_ids), advantage)
    sample = Sample(name, group, np.array(token_ids), np.array(mask), np.array(logprobs), advantages)
    return add_tokenizer_provenance(sample)


def random_tokens(rng: random.Random, count: int, vocabulary: int) -> list[int]:
    return [rng.randrange(vocabulary) for _ in range(count)]


def policy_gradient(logprobs: Tensor, tokens: LossTokens) -> tuple[Tensor, Metrics]:
    """Compute the plain policy gradient; the algorithms add nothing measurable to it."""
    return -(logprobs * tokens.advantages).mean(), {}


async def step_long(trainer: LocalTrainer, shape: Shape, seed: int) -> dict[str, float]:
    """Make one optimizer step on one long sequence. Return its figures."""
    rng, length = random.Random(seed), shape.long_tokens
    mask = [False] + [rng.random() < LOSS_SHARE for _ in range(length - 1)]
    token_ids = random_tokens(rng, length, int(shape.model["vocab_size"]))
    sample = make_sample("long", "long", token_ids, mask, [0.0] * length, 1.0)
    reset_peak(trainer.model.device)
    stopwatch = Stopwatch(trainer.model.device)
    await trainer.step(pack([sample], length), policy_gradient)
    seconds = stopwatch.lap()
    work = count_flops(find_shape(trainer.model.config), [length], sample.num_loss_tokens)
    return {
        "seconds": seconds,
        "tokens/s": length / seconds,
        "useful TFLOP/s (recomputation not counted)": work / seconds / 1e12,
        "peak memory, GiB": peak_gib(trainer.model.device),
    }


class Stopwatch:
    """Seconds between laps; each lap waits until the device is idle."""

    def __init__(self, device: torch.device) -> None:
        self._wait: Callable[[], None] = torch.cuda.synchronize if device.type == "cuda" else lambda: None
        self.lap()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        self._wait()
        now = time.perf_counter()
        seconds, self._last = now - getattr(self, "_last", now), now
        return seconds


def reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()


def peak_gib(device: torch.device) -> float:
    """Return the peak memory: of a GPU since the last reset, of a CPU since the process started."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / GIB
    return 1_024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB


def print_table(shape: Shape, device: torch.device, num_episodes: int, rounds: Figures, long: Figures) -> None:
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads of a CPU"
    print(f"{name}, torch {torch.__version__}, layers in {DTYPE} over float32 weights")
    print(f"\n{num_episodes} episodes × {shape.turns} turns, up to {shape.context} tokens each")
    print_lines(rounds)
    print(f"\none optimizer step on a sequence of {shape.long_tokens} tokens")
    print_lines(long)


def print_lines(figures: Figures) -> None:
    for name, values in figures.values.items():
        print(f"  {name:44}{statistics.median(values):>14.5g}")


if __name__ == "__main__":
    main()
