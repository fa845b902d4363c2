"""Rehearsals: the teacher's episodes in the real agent loop and real sandboxes, as samples."""

import asyncio
import random
from collections.abc import Iterable

from tiny_base.imitation import make_sample
from tiny_base.lessons import Lesson
from tiny_base.scripted import ScriptedEngine
from tiny_base.teacher import Faults, Teacher
from turnsmith.agent.dialogues.tokens import TokenDialogueFactory
from turnsmith.agent.loop import Episode
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import AgentConfig
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec
from turnsmith.types import Sample, Trajectory

AGENT = AgentConfig(
    prompts="brief", max_turns=12, max_context=4_096, max_new_tokens=256, window_lines=10, max_observation_tokens=320
)
FIX_TURN = 3
"""Turn in which a teacher without faults submits the fix. Few lessons need the later turns, which are a third of the tokens."""
DEMONSTRATION_SHARE = 0.1
CONCURRENCY = 4


async def rehearse(
    lessons: Iterable[Lesson],
    faults: Faults,
    provider: SandboxProvider,
    renderer: ChatRenderer,
    seed: int,
    short_share: float = 0.0,
) -> list[Sample]:
    """Play every lesson once; a share of `short_share` ends with the fix."""
    waiting, samples = enumerate(lessons), {}

    async def work() -> None:
        for index, lesson in waiting:
            rng = random.Random(f"rehearsal {seed} {index}")
            max_turns = FIX_TURN if rng.random() < short_share else AGENT.max_turns
            samples[index] = to_sample(await play(lesson, faults, provider, renderer, rng, max_turns))

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return [samples[index] for index in sorted(samples)]


async def play(
    lesson: Lesson,
    faults: Faults,
    provider: SandboxProvider,
    renderer: ChatRenderer,
    rng: random.Random,
    max_turns: int = AGENT.max_turns,
) -> Trajectory:
    """Play one lesson in the agent loop."""
    teacher = Teacher(lesson, faults, rng)
    engine = ScriptedEngine(renderer.tokenizer, teacher.answer, stop_token_id=renderer.end_of_turn_id)
    sandbox = await provider.start(SandboxSpec(tuple(lesson.folder / layer for layer in lesson.task.layers)))
    try:
        begun, config = begin(lesson.task.instance_id), AGENT.model_copy(update={"max_turns": max_turns})
        episode = Episode(
            begun,
            lesson.task,
            TokenDialogueFactory(engine, renderer).open(begun, config),
            sandbox,
            load_scaffold(prompts=AGENT.prompts),
            config,
            demonstration=rng.random() < DEMONSTRATION_SHARE,
        )
        return await episode.play()
    finally:
        await sandbox.stop()


def begin(name: str) -> Trajectory:
    """Return an empty trajectory; a rehearsal uses only its tokens."""
    return Trajectory(trajectory_id=name, group_id=name, index=0, instance_id=name, iteration=0, seed=0)


def to_sample(trajectory: Trajectory) -> Sample:
    """Return a sample with the teacher's turns in the loss."""
    return make_sample(trajectory.token_ids, trajectory.sampled)
