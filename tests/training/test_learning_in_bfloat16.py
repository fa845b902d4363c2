"""Learning with bfloat16 layers compared with float32, on the same game."""

import asyncio
import random

import numpy as np
import pytest
import torch

from support.models.small_models import make_model
from turnsmith.algo.packing import pack
from turnsmith.config import OptimizerConfig
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.training.local import LocalTrainer
from turnsmith.types import Link, Provenance, Sample

torch.set_num_threads(1)
VOCABULARY, NUM_PROMPTS, GROUP_SIZE, NUM_STEPS = 12, 12, 12, 25
OPTIMIZER = OptimizerConfig(learning_rate=3e-3, weight_decay=0.0)


async def play(engine, step):
    """Play groups of one-token answers, rewarded for the token after the prompt's; return samples and mean reward."""
    rng = random.Random(step)
    prompts = [[rng.randrange(VOCABULARY)] for _ in range(NUM_PROMPTS)]
    names = [(group, index) for group in range(NUM_PROMPTS) for index in range(GROUP_SIZE)]
    requests = [
        GenerateRequest(
            f"{step}/{group}/{index}", prompts[group], 1, frozenset(), seed=step * 1_000 + group * 50 + index
        )
        for group, index in names
    ]
    answers = await asyncio.gather(*(engine.generate(request) for request in requests))
    wanted = [(prompts[group][0] + 1) % VOCABULARY for group, _ in names]
    rewards = np.array([float(a.token_ids[0] == token) for a, token in zip(answers, wanted, strict=True)])
    advantages = (rewards.reshape(NUM_PROMPTS, -1) - rewards.reshape(NUM_PROMPTS, -1).mean(1, keepdims=True)).ravel()
    samples = [
        Sample(
            trajectory_id=request.episode_id,
            provenance=Provenance((Link(1, 2, answer.policy_version, answer.digest),)),
            group_id=str(group),
            token_ids=[*prompts[group], int(answer.token_ids[0])],
            loss_mask=[False, True],
            sampled_logprobs=[0.0, float(answer.logprobs[0])],
            advantages=[advantage] * 2,
        )
        for request, answer, (group, _), advantage in zip(requests, answers, names, advantages, strict=True)
    ]
    return samples, rewards.mean()


def policy_gradient(logprobs, tokens):
    return -(logprobs * tokens.advantages).mean(), {"loss/entropy": -logprobs.mean().item()}


async def learn(dtype):
    """Return mean reward per step, and the mean gap between log-probs of engine and trainer."""
    model = make_model(vocab_size=VOCABULARY, hidden_size=64, initializer_range=0.1)
    engine = InProcessEngine(model, max_context=8, num_blocks=200, dtype=dtype, num_spared_cores=0)
    trainer = LocalTrainer(model, OPTIMIZER, dtype=dtype)
    shares, gaps = [], []
    for step in range(NUM_STEPS):
        samples, share = await play(engine, step)
        scored = await trainer.logprobs(pack(samples, 4_096))
        gaps += [abs(scored[s.trajectory_id][-1] - s.sampled_logprobs[-1]) for s in samples]
        await trainer.step(pack(samples, 4_096), policy_gradient)
        await engine.load_weights(await trainer.publish())
        shares.append(share)
    return shares, float(np.mean(gaps))


@pytest.mark.slow
async def test_layers_in_bfloat16_learn_as_in_float32():
    exact, gap = await learn(torch.float32)
    half, half_gap = await learn(torch.bfloat16)
    assert exact[0] < 0.2 and half[0] < 0.2
    assert np.mean(exact[-5:]) > 0.9 and np.mean(half[-5:]) > 0.9
    assert np.abs(np.array(exact) - np.array(half)).mean() < 0.05
    assert gap < 1e-5 and half_gap < 0.02
