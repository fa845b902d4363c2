"""Benchmark of provenance: the cost of verifying a batch, compared with the optimizer step that follows.

    python bench/provenance.py [--num 6] [--tokens 4096] [--turns 16] [--check]

An eighth of the tokens of each trajectory is sampled. Times are processor time on one core, the best of three. The step is one
optimizer step of the shipped policy, in float32. `--check` exits with 1 if verifying takes more than 1 % of the step.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from turnsmith.algo.packing import pack
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import ModelConfig, OptimizerConfig
from turnsmith.training.local import LocalTrainer
from turnsmith.training.model import load_model
from turnsmith.training.provenance import check_provenance
from turnsmith.types import Link, MicroBatch, Provenance, Sample, digest_turn

MAX_SHARE = 0.01


def make_sample(index: int, num_tokens: int, num_turns: int) -> Sample:
    """Return random tokens in equal parts; the last eighth of each part is a sampled turn."""
    rng, part = np.random.default_rng(index), num_tokens // num_turns
    mask = np.arange(part * num_turns) % part >= part - part // 8
    token_ids = rng.integers(0, 256, len(mask), np.int32)
    logprobs = np.where(mask, -rng.exponential(0.3, len(mask)), 0).astype(np.float32)
    blank = Sample(str(index), "g", token_ids, mask, logprobs, np.ones(len(mask)))
    ends = range(part, len(mask) + 1, part)
    links = tuple(Link(end - part // 8, end, 0, digest_end(blank, end - part // 8, end)) for end in ends)
    return Sample(str(index), "g", token_ids, mask, logprobs, np.ones(len(mask)), provenance=Provenance(links))


def digest_end(sample: Sample, start: int, end: int) -> str:
    """Return the digest that an engine computes for a turn, from the whole history."""
    sampled = sample.token_ids[start:end], sample.sampled_logprobs[start:end]
    return digest_turn(sample.trajectory_id, sample.token_ids[:start], *sampled, policy_version=0)


def best(act: Callable[[], object]) -> float:
    """Return the least processor seconds of three calls."""
    seconds = []
    for _ in range(3):
        started = time.process_time()
        act()
        seconds.append(time.process_time() - started)
    return min(seconds)


def make_step(batches: list[MicroBatch]) -> Callable[[], object]:
    trainer = LocalTrainer(load_model(ModelConfig(path="tiny", device="cpu")), OptimizerConfig())
    return lambda: asyncio.run(trainer.step(batches, policy_gradient))


def policy_gradient(logprobs: torch.Tensor, tokens: LossTokens) -> tuple[torch.Tensor, dict[str, float]]:
    return -(logprobs * tokens.advantages).mean(), {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=4_096)
    parser.add_argument("--turns", type=int, default=16)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    samples = [make_sample(index, arguments.tokens, arguments.turns) for index in range(arguments.num)]
    batches, num_tokens = pack(samples, arguments.tokens), sum(map(len, samples))
    digests_s = best(
        lambda: [digest_end(s, link.start, link.end) for s in samples if s.provenance for link in s.provenance.links]
    )
    verifying_s, step_s = best(lambda: check_provenance(batches)), best(make_step(batches))
    print(f"{arguments.num} trajectories of {arguments.tokens} tokens in {arguments.turns} turns, one core")
    for name, seconds in (
        ("engine digests", digests_s),
        ("verifying a batch", verifying_s),
        ("optimizer step", step_s),
    ):
        print(f"{name:24}{1_000 * seconds:10.2f} ms{1e9 * seconds / num_tokens:12.1f} ns per token")
    print(f"verifying takes {verifying_s / step_s:.3%} of the step")
    if arguments.check and verifying_s > MAX_SHARE * step_s:
        sys.exit(f"missed: more than {MAX_SHARE:.0%}")


if __name__ == "__main__":
    main()
