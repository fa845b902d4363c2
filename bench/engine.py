"""The in-process engine against `transformers` `generate`: many episodes of several turns, on this machine.

    python bench/engine.py [--episodes 64] [--rounds 3] [--siblings 8]

Both sides play the same episodes: a prompt of 250 tokens (100 of them shared by all), then 5 turns of 25 sampled tokens, each
answered by 80 observed ones. `generate` runs all episodes in one padded batch per turn and reads each history anew, as a loop
around it has to. Rounds are interleaved; the table shows medians.
"""

import argparse
import asyncio
import random
import statistics
import time

import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from turnsmith.engines import attention
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.inprocess import InProcessEngine

VOCABULARY = 1_536
SHARED, OWN, SAMPLED, OBSERVED, TURNS = 100, 150, 25, 80, 5
MAX_CONTEXT = 1_024


def main() -> None:
    arguments = parse_arguments()
    model = make_model()
    sides = {"transformers generate": play_with_generate, "turnsmith": play_with_engine}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for round_index in range(arguments.rounds):
        histories = make_prompts(arguments.episodes, arguments.siblings, seed=round_index)
        for name, play in sides.items():
            began = time.perf_counter()
            play(model, histories)
            seconds[name].append(time.perf_counter() - began)
    print_table(arguments.episodes, {name: statistics.median(values) for name, values in seconds.items()})


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=64, help="episodes that run together")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each side")
    parser.add_argument(
        "--siblings", type=int, default=1, help="episodes that share a whole prompt, as the group of a task does"
    )
    return parser.parse_args()


def make_model() -> PreTrainedModel:
    """The architecture of the tiny base policy, with random weights."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    return Qwen2ForCausalLM(config).eval()


def make_prompts(num_episodes: int, siblings: int, seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    shared = random_tokens(rng, SHARED)
    tasks = [shared + random_tokens(rng, OWN) for _ in range(0, num_episodes, siblings)]
    return [tasks[index // siblings] for index in range(num_episodes)]


def random_tokens(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(VOCABULARY) for _ in range(count)]


def play_with_engine(model: PreTrainedModel, prompts: list[list[int]]) -> None:
    engine = InProcessEngine(model, max_context=MAX_CONTEXT, num_slots=len(prompts), num_spared_cores=0)
    asyncio.run(play_episodes(engine, prompts))
    engine.close()


async def play_episodes(engine: InProcessEngine, prompts: list[list[int]]) -> None:
    await asyncio.gather(*(play_episode(engine, index, prompt) for index, prompt in enumerate(prompts)))


async def play_episode(engine: InProcessEngine, index: int, history: list[int]) -> None:
    rng, name = random.Random(index), f"episode-{index}"
    for turn in range(TURNS):
        request = GenerateRequest(name, history, SAMPLED, frozenset(), seed=index * TURNS + turn)
        history = history + (await engine.generate(request)).token_ids + random_tokens(rng, OBSERVED)
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
        histories = [history + random_tokens(rng, OBSERVED) for history in output.tolist()]
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
