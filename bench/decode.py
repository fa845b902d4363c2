"""Benchmark of multi-turn decoding: the in-process engine, `generate` of `transformers`, vLLM, and the arithmetic limit.

    python bench/decode.py [--model tiny] [--dtype float32] [--episodes 32] [--turns 16] [--sampled 48] [--observed 208]
                           [--rounds 3] [--threads 2] [--vllm PYTHON] [--check]

All sides decode the same episodes with the shipped base policy, or with another model. Each turn consists of observed tokens,
then sampled ones. `generate` decodes all episodes in one batch per turn and processes each history again; it runs only with the
shipped policy. vLLM runs compiled and with its prefix cache, in the interpreter named by `--vllm`; without this option its row
is missing. Rounds are interleaved; the table shows medians.

The arithmetic limit is the time of all multiplications plus the time to read weights, keys and values. The multiplications run
at the speed of a large matrix product, the reads at the speed of a large sum. Both speeds are measured in the same run.
`--check` requires an engine half as fast as the limit. With the shipped policy it must be 5 times as fast as `generate` and 1.5
times as fast as vLLM. With another model it must be as fast as vLLM, with a peak of at most 5 GB. Otherwise it exits with 1.
"""

import argparse
import asyncio
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from torch.nn import Embedding
from transformers import PreTrainedModel

from turnsmith.config import ModelConfig
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch import attention
from turnsmith.engines.torch.blocks import blocks_for, kv_bytes_per_token
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.training.directories import find_model
from turnsmith.training.model import load_model

GENERATE, VLLM, FLOOR, OURS = "transformers generate", "vLLM", "arithmetic limit", "turnsmith"
RATIOS = {GENERATE: 5.0, VLLM: 1.5, FLOOR: 0.5}
"""Required speed of the engine with the shipped policy, as a multiple of each other side's."""
RATIOS_OF_OTHERS = {VLLM: 1.0, FLOOR: 0.5}
"""The same with another model."""
PEAK_BYTES = 5e9
"""Largest resident memory of this process with another model."""


class Replay(NamedTuple):
    """Workload: the number of episodes, and the turns and tokens of each."""

    episodes: int
    turns: int
    sampled: int
    observed: int

    @property
    def max_context(self) -> int:
        return self.turns * (self.sampled + self.observed)

    @property
    def num_sampled(self) -> int:
        return self.episodes * self.turns * self.sampled


class VLLMProcess:
    """vLLM in a separate interpreter, which decodes one round for each seed sent to it."""

    def __init__(self, python: str, replay: Replay, model: ModelConfig) -> None:
        script = Path(__file__).with_name("decode_by_vllm.py")
        arguments = [str(find_model(model.path)), *map(str, replay), str(model.threads), model.dtype]
        self._process = subprocess.Popen(
            [python, str(script), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin and self._process.stdout
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.compile_s = self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stdin.close()
        self._process.wait()

    def play(self, seed: int) -> float:
        """Decode one round. Return its seconds."""
        print(seed, file=self._stdin, flush=True)
        return self._answer()

    def _answer(self) -> float:
        for line in self._stdout:
            if line.startswith("{"):
                return json.loads(line)["seconds"]
        raise SystemExit(f"vLLM ended with exit code {self._process.wait()}: see its output above")


def main() -> None:
    arguments = parse_arguments()
    replay = Replay(arguments.episodes, arguments.turns, arguments.sampled, arguments.observed)
    config = ModelConfig(path=arguments.model, threads=arguments.threads, dtype=arguments.dtype)
    model, dtype = load_model(config), getattr(torch, arguments.dtype)
    sides: dict[str, Callable[[int], float]] = {
        OURS: lambda seed: play_with_engine(model, replay, seed, dtype),
        FLOOR: lambda seed: find_floor(model, replay, dtype),
    }
    if arguments.model == "tiny":
        sides[GENERATE] = lambda seed: play_with_generate(model, replay, seed)
    if not arguments.vllm:
        sys.exit(compare(measure(sides, arguments.rounds), replay, arguments))
    with VLLMProcess(arguments.vllm, replay, config) as peer:
        print(f"vLLM: loading and compiling took {peer.compile_s:.0f} s, not included below")
        sys.exit(compare(measure({VLLM: peer.play, **sides}, arguments.rounds), replay, arguments))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny", help="model directory; tiny is the shipped policy")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="dtype of matrix products")
    parser.add_argument("--episodes", type=int, default=32, help="concurrent episodes")
    parser.add_argument("--turns", type=int, default=16, help="turns of each episode")
    parser.add_argument("--sampled", type=int, default=48, help="tokens sampled in each turn")
    parser.add_argument("--observed", type=int, default=208, help="tokens before each turn")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side")
    parser.add_argument("--threads", type=int, default=2, help="threads of every side")
    parser.add_argument("--vllm", metavar="PYTHON", help="interpreter with vLLM")
    parser.add_argument("--check", action="store_true", help="exit with 1 if the engine is too slow")
    return parser.parse_args()


def measure(sides: dict[str, Callable[[int], float]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each side, after one warm-up round."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for seed in range(-1, rounds):
        for name, play in sides.items():
            took = play(seed)
            seconds[name] += [took] if seed >= 0 else []
    return {name: statistics.median(values) for name, values in seconds.items()}


def observe(replay: Replay, vocabulary: int, seed: int) -> list[list[list[int]]]:
    """Draw the observed tokens of each episode and turn from the seed."""
    rng = random.Random(seed)
    return [
        [[rng.randrange(vocabulary) for _ in range(replay.observed)] for _ in range(replay.turns)]
        for _ in range(replay.episodes)
    ]


def vocabulary_of(model: PreTrainedModel) -> int:
    """Return the vocabulary size of the model."""
    return cast(Embedding, model.get_input_embeddings()).num_embeddings


def play_with_engine(model: PreTrainedModel, replay: Replay, seed: int, dtype: torch.dtype) -> float:
    """Decode one round with the in-process engine, episodes independent of each other. Return its seconds."""
    observed = observe(replay, vocabulary_of(model), seed)
    num_blocks = replay.episodes * blocks_for(replay.max_context)
    engine = InProcessEngine(
        model, max_context=replay.max_context, num_blocks=num_blocks, dtype=dtype, num_spared_cores=0
    )
    began = time.perf_counter()
    asyncio.run(play_episodes(engine, observed, replay.sampled))
    engine.close()
    return time.perf_counter() - began


async def play_episodes(engine: InProcessEngine, observed: list[list[list[int]]], num_sampled: int) -> None:
    await asyncio.gather(*(play_episode(engine, index, turns, num_sampled) for index, turns in enumerate(observed)))


async def play_episode(engine: InProcessEngine, index: int, turns: list[list[int]], num_sampled: int) -> None:
    history: list[int] = []
    for turn, observation in enumerate(turns):
        history = history + observation
        seed = index * len(turns) + turn
        request = GenerateRequest(f"episode-{index}", np.array(history), num_sampled, frozenset(), seed=seed)
        history = history + (await engine.generate(request)).token_ids.tolist()


def play_with_generate(model: PreTrainedModel, replay: Replay, seed: int) -> float:
    """Decode one round with `generate`, in a batch without padding, its best case. Return the seconds."""
    observed = observe(replay, vocabulary_of(model), seed)
    model.set_attn_implementation("sdpa")
    histories: list[list[int]] = [[] for _ in observed]
    began = time.perf_counter()
    for turn in range(replay.turns):
        histories = [history + turns[turn] for history, turns in zip(histories, observed, strict=True)]
        batch = torch.tensor(histories)
        output = cast(Any, model).generate(
            batch,
            attention_mask=torch.ones_like(batch),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            max_new_tokens=replay.sampled,
            pad_token_id=0,
        )
        histories = output.tolist()
    seconds = time.perf_counter() - began
    model.set_attn_implementation(attention.NAME)
    return seconds


def find_floor(model: PreTrainedModel, replay: Replay, dtype: torch.dtype) -> float:
    """Return the least seconds of a round if each token is computed once, one per episode and step."""
    flops, num_bytes = count_work(model, replay, dtype)
    return flops / multiply_rate(dtype) + num_bytes / read_rate()


def count_work(model: PreTrainedModel, replay: Replay, dtype: torch.dtype) -> tuple[float, float]:
    """Return the floating-point operations of all products, and the bytes that decode steps read."""
    kept_bytes = kv_bytes_per_token(model.config, dtype)
    head_weights = vocabulary_of(model) * model.config.hidden_size
    layer_weights = sum(parameter.numel() for parameter in model.get_decoder().layers.parameters())
    lengths = np.arange(1, replay.max_context + 1)
    is_sampled = (lengths - 1) % (replay.observed + replay.sampled) >= replay.observed
    # Each query reads every earlier key and value: two operations per cached number, times the heads that share it.
    sharing = model.config.num_attention_heads // model.config.num_key_value_heads
    of_layers = 2 * layer_weights * len(lengths) + sharing * kept_bytes * 2 // dtype.itemsize * int(lengths.sum())
    flops = replay.episodes * (of_layers + 2 * head_weights * int(is_sampled.sum()))
    read = replay.episodes * kept_bytes * int(lengths[is_sampled].sum())
    return flops, read + dtype.itemsize * (layer_weights + head_weights) * int(is_sampled.sum())


def multiply_rate(dtype: torch.dtype, size: int = 1_024, seconds: float = 0.5) -> float:
    """Measure floating-point operations per second in a product of large matrices."""
    left, right = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
    return 2 * size**3 / best_of(lambda: left @ right, seconds)


def read_rate(num_bytes: int = 2**28, seconds: float = 0.5) -> float:
    """Measure bytes per second read from main memory."""
    numbers = torch.ones(num_bytes // 4)
    return num_bytes / best_of(numbers.sum, seconds)


def best_of(call: Callable[[], object], seconds: float) -> float:
    """Repeat a call for some seconds. Return its shortest time."""
    until, shortest = time.perf_counter() + seconds, float("inf")
    while (began := time.perf_counter()) < until:
        call()
        shortest = min(shortest, time.perf_counter() - began)
    return shortest


def compare(seconds: dict[str, float], replay: Replay, arguments: argparse.Namespace) -> int:
    """Print the table. Return the exit code."""
    print(
        f"{arguments.model}: {replay.episodes} episodes x {replay.turns} x ({replay.sampled} sampled + {replay.observed} "
        f"observed), {torch.get_num_threads()} threads, {arguments.dtype}, medians"
    )
    print(f"{'':24}{'seconds':>10}{'generated tok/s':>18}{'turnsmith is':>14}{'required':>10}")
    is_shipped, misses = arguments.model == "tiny", []
    ratios = RATIOS if is_shipped else RATIOS_OF_OTHERS
    for name, value in seconds.items():
        ratio, required = value / seconds[OURS], ratios.get(name)
        misses += [name] if required and ratio < required else []
        told = f"{required:9.1f}x" if required else ""
        print(f"{name:24}{value:10.2f}{replay.num_sampled / value:18.0f}{ratio:13.2f}x{told}")
    peak = 1_024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory {peak / 1e9:.2f} GB" + ("" if is_shipped else f", required at most {PEAK_BYTES / 1e9:.0f} GB"))
    misses += [] if is_shipped or peak <= PEAK_BYTES else ["peak memory"]
    for name in misses:
        print(f"missed: {name}")
    return 1 if arguments.check and misses else 0


if __name__ == "__main__":
    main()
