"""Benchmark of one whole DAPO iteration: Turnsmith, and the GRPO trainer of TRL with a `rollout_func`.

    python bench/iteration.py [--prompts 2] [--turns 16] [--sampled 48] [--observed 208] [--rounds 3] [--threads 2]
                              [--model tiny] [--check]

Both sides train copies of one model in float32, with the same prompts, group size 8, optimizer and loss. An iteration collects
episodes with a tool in this process, computes advantages and makes one optimizer step. Every turn has the same number of
sampled tokens, and every answer of the tool the same length. So both sides process equally many tokens of each kind. Turnsmith
also verifies its digests, which TRL does not. Both sides make one optimizer step, so neither computes old log-probs: TRL skips
them then, and Turnsmith uses those of its engine. The sides take turns; the table shows medians of the rounds after a warm-up.

Before the rounds, both compute the loss of one frozen batch. Its samples have unequal lengths, random advantages and perturbed
old log-probs. Losses and gradients must agree to 1e-4, or the script exits with 1. With `--check` it also exits with 1 if
Turnsmith is less than three times as fast as TRL. Needs the extra `bench`.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import Embedding
from transformers import PreTrainedModel

from iteration_by_trl import TrlSide
from iteration_episodes import GROUP_SIZE, Stopwatch, Tool, Workload
from turnsmith.algo.algorithm import choose_algorithm
from turnsmith.algo.packing import pack
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import ModelConfig, OptimizerConfig, StageConfig
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch.blocks import blocks_for
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.recipes.steps import batch_samples
from turnsmith.rollouts.samples import to_samples
from turnsmith.training.local import LocalTrainer
from turnsmith.training.model import load_model, logprobs_of_sampled
from turnsmith.types import Group, Outcome, Sample, Trajectory, Turn

REQUIRED = 3.0
"""Required speed of Turnsmith, as a multiple of TRL's."""
TOLERANCE = 1e-4
"""Largest relative difference of the loss and of the gradient on the frozen batch."""
MICRO_BATCH_TOKENS = 16_384


class TurnsmithSide:
    """Engine and trainer of Turnsmith, which share one model in this process."""

    def __init__(self, model: PreTrainedModel, workload: Workload, tool: Tool, stage: StageConfig) -> None:
        num_blocks = workload.episodes * blocks_for(workload.max_context)
        # The tool needs no core of its own.
        self._engine = InProcessEngine(
            model, max_context=workload.max_context, num_blocks=num_blocks, num_spared_cores=0
        )
        self._trainer = LocalTrainer(model, stage.optimizer)
        self._workload, self._tool, self._stage = workload, tool, stage

    def iterate(self, number: int) -> Stopwatch:
        """Run one iteration. Return the seconds of its parts."""
        return asyncio.run(self._iterate(number))

    async def _iterate(self, number: int) -> Stopwatch:
        stopwatch = Stopwatch()
        advantages, make_loss = choose_algorithm(self._stage)
        with stopwatch.time("collect"):
            groups = await self._collect(number)
            samples = [sample for group in groups for sample in to_samples(group, advantages(group))]
        with stopwatch.time("update"):
            for batch in batch_samples(samples, self._stage, seed=number):
                await self._trainer.step(batch, make_loss([sample for packed in batch for sample in packed.samples]))
            await self._engine.load_weights(await self._trainer.publish())
        return stopwatch

    async def _collect(self, number: int) -> list[Group]:
        prompts = range(self._workload.prompts)
        return list(await asyncio.gather(*(self._collect_group(number, prompt) for prompt in prompts)))

    async def _collect_group(self, number: int, prompt: int) -> Group:
        members = await asyncio.gather(*(self._play(number, prompt, index) for index in range(GROUP_SIZE)))
        rewards = [self._tool.reward(each.token_ids[each.sampled].tolist()) for each in members]
        return Group(group_id=f"{number}/{prompt}", trajectories=list(members), rewards=rewards)

    async def _play(self, number: int, prompt: int, index: int) -> Trajectory:
        """Play one episode; the observation after its last turn is left out, as no turn reads it."""
        name, token_ids = f"{number}/{prompt}/{index}", self._tool.open(prompt)
        turns, logprobs = list[Turn](), [0.0] * len(token_ids)
        for turn in range(self._workload.turns):
            if turn:
                observed = self._tool.answer(prompt, turn, token_ids[turns[-1].start :])
                token_ids, logprobs = token_ids + observed, logprobs + [0.0] * len(observed)
            seed = ((number * self._workload.prompts + prompt) * GROUP_SIZE + index) * self._workload.turns + turn
            request = GenerateRequest(name, np.array(token_ids), self._workload.sampled, frozenset(), seed % 2**63)
            done = await self._engine.generate(request)
            span = {"start": len(token_ids), "end": len(token_ids) + len(done.token_ids)}
            turns.append(Turn(**span, text="", policy_version=done.policy_version, digest=done.digest))
            token_ids, logprobs = token_ids + done.token_ids.tolist(), logprobs + done.logprobs.tolist()
        self._engine.release(name)
        sampled = np.zeros(len(token_ids), bool)
        for each in turns:
            sampled[each.start : each.end] = True
        return Trajectory(
            trajectory_id=name,
            group_id=f"{number}/{prompt}",
            index=index,
            instance_id=str(prompt),
            iteration=number,
            seed=0,
            token_ids=np.array(token_ids),
            sampled=sampled,
            logprobs=np.array(logprobs),
            turns=turns,
            outcome=Outcome.UNRESOLVED,
            prompt_tokens=self._workload.observed,
        )

    def freeze(self) -> list[Sample]:
        """Collect a batch of unequal lengths, with random advantages and perturbed old log-probs."""
        groups = asyncio.run(self._collect(-1))
        rng = np.random.default_rng(0)
        samples = [sample for group in groups for sample in to_samples(group, dict.fromkeys(names(group), 1.0))]
        return [perturb(sample, rng) for sample in samples]

    def score(self, samples: list[Sample]) -> tuple[float, Tensor]:
        """Return loss and gradient of a batch."""
        _, make_loss = choose_algorithm(self._stage)
        model, loss_fn, total = self._trainer.model, make_loss(samples), 0.0
        for packed in pack(samples, self._stage.optimizer.max_tokens_per_micro_batch):
            loss, _ = loss_fn(logprobs_of_sampled(model, packed), LossTokens.of(packed))
            loss.backward()
            total += loss.item()
        gradient = torch.cat([cast(Tensor, each.grad).flatten() for each in model.parameters()])
        model.zero_grad()
        return total, gradient


def names(group: Group) -> list[str]:
    """Return the ids of a group's trajectories."""
    return [each.trajectory_id for each in group.trajectories]


def perturb(sample: Sample, rng: np.random.Generator) -> Sample:
    """Cut a sample to a random length, draw its advantage, and perturb its old log-probs so that some ratios are clipped."""
    length = int(rng.integers(len(sample) // 2, len(sample)))
    kept: dict[str, Any] = {name: column[:length] for name, column in sample.columns().items()}
    noise = rng.normal(0.0, 0.2, length) * kept["loss_mask"]
    kept |= {"advantages": np.full(length, rng.normal()), "old_logprobs": kept["sampled_logprobs"] + noise}
    return replace(sample, provenance=None, **kept)


def main() -> None:
    arguments = parse_arguments()
    workload = Workload(arguments.prompts, arguments.turns, arguments.sampled, arguments.observed)
    loaded = ModelConfig(path=arguments.model, threads=arguments.threads)
    model, stage = load_model(loaded), make_stage(workload)
    tool = Tool(workload, cast(Embedding, model.get_input_embeddings()).num_embeddings)
    ours = TurnsmithSide(model, workload, tool, stage)
    peer = TrlSide(loaded.path, workload, tool, stage, arguments.rounds + 1)
    is_equal = compare_losses(ours, peer)
    sides = {"TRL": list[Stopwatch](), "turnsmith": list[Stopwatch]()}
    peer.train(partial(note, sides, "TRL"), lambda number: note(sides, "turnsmith", ours.iterate(number)))
    is_fast = print_table({name: laps[1:] for name, laps in sides.items()}, workload)
    sys.exit(0 if is_equal and (is_fast or not arguments.check) else 1)


def note(sides: dict[str, list[Stopwatch]], name: str, lap: Stopwatch) -> None:
    """Add an iteration to those of its side, and print its time; the first of each side is a warm-up."""
    sides[name].append(lap)
    print(f"iteration {len(sides[name]) - 1}: {name} {lap.total:.1f} s, {lap.cpu:.1f} CPU-s", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=2, help="prompts of each iteration")
    parser.add_argument("--turns", type=int, default=16, help="turns of each episode")
    parser.add_argument("--sampled", type=int, default=48, help="tokens sampled in each turn")
    parser.add_argument("--observed", type=int, default=208, help="tokens before each turn")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side")
    parser.add_argument("--threads", type=int, default=2, help="threads of both sides")
    parser.add_argument("--model", default="tiny", help="model directory, or a policy that ships with the package")
    parser.add_argument("--check", action="store_true", help="exit with 1 if Turnsmith is too slow")
    return parser.parse_args()


def make_stage(workload: Workload) -> StageConfig:
    """Return the stage whose loss, optimizer and batch both sides use: one optimizer step per iteration."""
    return StageConfig(
        tasks_per_iteration=workload.prompts,
        group_size=GROUP_SIZE,
        batch_size=workload.episodes,
        clip_eps_low=0.2,
        clip_eps_high=0.28,
        zero_advantage="final",
        old_logprobs="engine",
        optimizer=OptimizerConfig(learning_rate=1e-6, max_tokens_per_micro_batch=MICRO_BATCH_TOKENS),
    )


def compare_losses(ours: TurnsmithSide, peer: TrlSide) -> bool:
    """Print both losses of a frozen batch. Return True if losses and gradients agree."""
    samples = ours.freeze()
    (loss, gradient), (peer_loss, peer_gradient) = ours.score(samples), peer.score(samples)
    differences = abs(loss / peer_loss - 1), float((gradient - peer_gradient).norm() / peer_gradient.norm())
    print(
        f"loss of a frozen batch: {loss:.7f}, TRL's {peer_loss:.7f}; relative difference {differences[0]:.1e},", end=" "
    )
    print(f"of the gradients {differences[1]:.1e} (allowed {TOLERANCE:.0e})")
    return max(differences) <= TOLERANCE


def print_table(sides: dict[str, list[Stopwatch]], workload: Workload) -> bool:
    """Print the medians of both sides. Return True if Turnsmith is fast enough."""
    print(
        f"{workload.prompts} prompts x {GROUP_SIZE} episodes x {workload.turns} turns x ({workload.sampled} sampled + "
        f"{workload.observed} observed), {torch.get_num_threads()} threads, float32, medians of {len(sides['TRL'])} rounds"
    )
    parts = ("collect", "update")
    columns = "".join(f"{part:>15}" for part in (*parts, "CPU seconds"))
    print(f"{'':12}{'seconds':>10}{columns}{'turnsmith is':>15}{'required':>10}")
    totals = {name: median(lap.total for lap in laps) for name, laps in sides.items()}
    for name, laps in sides.items():
        shares = "".join(f"{median(lap.seconds.get(part, 0.0) for lap in laps):15.2f}" for part in parts)
        cpu, told = median(lap.cpu for lap in laps), f"{REQUIRED:9.1f}x" if name == "TRL" else ""
        print(f"{name:12}{totals[name]:10.2f}{shares}{cpu:15.2f}{totals[name] / totals['turnsmith']:14.2f}x{told}")
    return totals["TRL"] >= REQUIRED * totals["turnsmith"]


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    main()
