"""Rehearsals: the teacher plays lessons through the real agent loop in real sandboxes; what is left are samples to learn from."""

import asyncio
import random
from collections.abc import Iterable
from dataclasses import replace

from tiny_base.lessons import Lesson
from tiny_base.teacher import Faults, Teacher
from turnsmith.agent.episode import Episode
from turnsmith.agent.loop import run_episode
from turnsmith.agent.prompts import load_prompts
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import AgentConfig
from turnsmith.engines.scripted import ScriptedEngine
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec
from turnsmith.types import Sample

AGENT = AgentConfig(
    prompts="brief", max_turns=12, max_context=4_096, max_new_tokens=256, window_lines=10, max_observation_tokens=320
)
DEMONSTRATION_SHARE = 0.1
CONCURRENCY = 4


async def rehearse(
    lessons: Iterable[Lesson], faults: Faults, provider: SandboxProvider, renderer: ChatRenderer, seed: int
) -> list[Sample]:
    """Play every lesson once."""
    rng, waiting = random.Random(seed), iter(lessons)

    async def work() -> list[Sample]:
        return [to_sample(await play(lesson, faults, provider, renderer, rng)) for lesson in waiting]

    parts = await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return [sample for part in parts for sample in part]


async def play(
    lesson: Lesson, faults: Faults, provider: SandboxProvider, renderer: ChatRenderer, rng: random.Random
) -> Episode:
    """One lesson through the agent loop."""
    teacher = Teacher(lesson, faults, rng)
    engine = ScriptedEngine(renderer.tokenizer, teacher.answer, stop_token_id=renderer.end_of_turn_id)
    sandbox = await provider.start(SandboxSpec(tuple(lesson.folder / layer for layer in lesson.task.layers)))
    try:
        return await run_episode(
            lesson.task,
            engine,
            sandbox,
            renderer,
            load_prompts(AGENT.prompts),
            AGENT,
            episode_id=lesson.task.instance_id,
            seed=0,
            demonstration=rng.random() < DEMONSTRATION_SHARE,
        )
    finally:
        await sandbox.stop()


def to_sample(episode: Episode) -> Sample:
    """Train on what the teacher said."""
    ones = [1.0] * len(episode.token_ids)
    return Sample("", episode.token_ids, list(episode.sampled), episode.logprobs, ones)


def with_observations(sample: Sample) -> Sample:
    """Train on everything but the first token: reading teaches copying."""
    return replace(sample, loss_mask=[False] + [True] * (len(sample) - 1))
