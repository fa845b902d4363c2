"""The in-process engine against `transformers` `generate`: many episodes of several turns, on this machine.

    python bench/engine.py [--episodes 64] [--rounds 3] [--siblings 1] [--threads 1] [--check]

Both sides play the same episodes with the base policy that ships with the package: a prompt of 250 tokens (100 of them shared
by all), then 5 turns of 25 sampled tokens, each answered by 80 observed ones. `generate` runs all episodes in one batch per
turn and reads each history anew, as a loop around it has to. Rounds are interleaved; the table shows medians. Under `--check`,
exit code 1 where the engine is not the faster of the two.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time

import numpy as np
import torch
from transformers import PreTrainedModel

from turnsmith.config import ModelConfig
from turnsmith.engines import attention
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.blocks import blocks_for
from turnsmith.engines.inprocess import InProcessEngine
from turnsmith.training.model import load_model

SHARED, OWN, SAMPLED, OBSERVED, TURNS = 100, 150, 25, 80, 5
MAX_CONTEXT = 1_024
THEIRS, OURS = "transformers generate", "turnsmith"


def main() -> None:
    arguments = parse_arguments()
    model = load_model(ModelConfig(path="tiny", threads=arguments.threads))
    sides = {THEIRS: play_with_generate, OURS: play_with_engine}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for round_index in range(arguments.rounds):
        histories = make_prompts(arguments.episodes, arguments.siblings, vocabulary_of(model), seed=round_index)
        for name, play in sides.items():
            began = time.perf_counter()
            play(model, histories)
            seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    print_table(arguments.episodes, medians)
    sys.exit(1 if arguments.check and medians[OURS] >= medians[THEIRS] else 0)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=64, help="episodes that run together")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each side")
    parser.add_argument(
        "--siblings", type=int, default=1, help="episodes that share a whole prompt, as the group of a task does"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="torch threads of both sides; beside other programs, more can be slower"
    )
    parser.add_argument("--check", action="store_true", help="exit code 1 where the engine is not faster than generate")
    return parser.parse_args()


def vocabulary_of(model: PreTrainedModel) -> int:
    """Number of tokens that the model knows."""
    return model.get_input_embeddings().num_embeddings


def make_prompts(num_episodes: int, siblings: int, vocabulary: int, seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    shared = random_tokens(rng, SHARED, vocabulary)
    tasks = [shared + random_tokens(rng, OWN, vocabulary) for _ in range(0, num_episodes, siblings)]
    return [tasks[index // siblings] for index in range(num_episodes)]


def random_tokens(rng: random.Random, count: int, vocabulary: int) -> list[int]:
    return [rng.randrange(vocabulary) for _ in range(count)]


def play_with_engine(model: PreTrainedModel, prompts: list[list[int]]) -> None:
    num_blocks = len(prompts) * blocks_for(MAX_CONTEXT)
    engine = InProcessEngine(model, max_context=MAX_CONTEXT, num_blocks=num_blocks, num_spared_cores=0)
    asyncio.run(play_episodes(engine, prompts, vocabulary_of(model)))
    engine.close()


async def play_episodes(engine: InProcessEngine, prompts: list[list[int]], vocabulary: int) -> None:
    await asyncio.gather(*(play_episode(engine, index, prompt, vocabulary) for index, prompt in enumerate(prompts)))


async def play_episode(engine: InProcessEngine, index: int, history: list[int], vocabulary: int) -> None:
    rng, name = random.Random(index), f"episode-{index}"
    for turn in range(TURNS):
        request = GenerateRequest(name, np.array(history), SAMPLED, frozenset(), seed=index * TURNS + turn)
        sampled = (await engine.generate(request)).token_ids.tolist()
        history = history + sampled + random_tokens(rng, OBSERVED, vocabulary)
    engine.release(name)


def play_with_generate(model: PreTrainedModel, histories: list[list[int]]) -> None:
    """All histories have one length, so the batch needs no padding: the best case of `generate`."""
    model.set_attn_implementation("sdpa")
    rng = random.Random(0)
    for _ in range(TURNS):
        batch = torch.tensor(histories)
        output = model.generate(
            batch,
            attention_mask=torch.ones_like(batch),
            do_sample=True,
            temperature=1.0,
            top_k=0,
            max_new_tokens=SAMPLED,
            pad_token_id=0,
        )
        histories = [history + random_tokens(rng, OBSERVED, vocabulary_of(model)) for history in output.tolist()]
    model.set_attn_implementation(attention.NAME)


def print_table(num_episodes: int, seconds: dict[str, float]) -> None:
    sampled = num_episodes * TURNS * SAMPLED
    prompts = num_episodes * (SHARED + OWN + (TURNS - 1) * OBSERVED)
    slowest = max(seconds.values())
    print(f"{num_episodes} episodes × {TURNS} turns, {torch.get_num_threads()} threads, medians")
    print(f"{'':24}{'seconds':>10}{'sampled tok/s':>16}{'prompt tok/s':>16}{'speed-up':>10}")
    for name, value in seconds.items():
        print(f"{name:24}{value:10.2f}{sampled / value:16.0f}{prompts / value:16.0f}{slowest / value:9.1f}×")


if __name__ == "__main__":
    main()
