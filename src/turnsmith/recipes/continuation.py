"""Continuation of a recorded episode from one of its turns, in a new sandbox.

The messages before that turn are replayed: their commands run again. Then a message of the user's takes the turn's place.
After it, the episode ends, or the policy continues. The patch is graded as in the run. Nothing is written.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from turnsmith.agent.dialogues.base import Dialogue
from turnsmith.agent.dialogues.tokens import TokenDialogue, TokenDialogueFactory
from turnsmith.agent.loop import Episode
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.chat.truncation import truncate_by_bytes
from turnsmith.config import RFT, AgentConfig, RunConfig
from turnsmith.engines.base import SavedWeights
from turnsmith.errors import UsageError
from turnsmith.grading.grading import Grader
from turnsmith.recipes.checkpoints import find_checkpoint
from turnsmith.recipes.policy.opening import open_policy
from turnsmith.recipes.task_sets import read_known_sets
from turnsmith.runs.folder import RunFolder
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec, started
from turnsmith.sandboxes.setup import set_up_for_agent
from turnsmith.tracking import Progress
from turnsmith.types import Isolation, Message, Outcome, SamplingParams, StopReason, TaskTree, Trajectory, Turn

UNPLAYED: dict[str, Any] = {
    "turns": [], "patch": "", "detail": "", "grade": None, "outcome": Outcome.UNGRADED, "stop_reason": StopReason.RUNNING,
}  # fmt: skip
"""Fields of a trajectory before its episode is played."""


@dataclass(frozen=True)
class ContinuationRequest:
    """Place from which an episode continues, and the messages that take over."""

    trajectory: Trajectory
    journal: str
    """Journal of the trajectory, e.g. `stages/stage1/iteration-0003`; it decides which limits hold."""
    num_replayed: int
    """Number of turns that are replayed."""
    messages: Sequence[str]
    """Messages after the replayed ones, each with one command."""
    by_policy: bool
    """True if the final policy of the run continues after the messages."""

    @property
    def script(self) -> list[str]:
        """Messages that are not sampled."""
        return [*(turn.text for turn in self.trajectory.turns[: self.num_replayed]), *self.messages]


@dataclass
class WrittenDialogue:
    """Dialogue whose messages are all given; it ends with the last one."""

    script: Sequence[str]
    config: AgentConfig
    num_turns: int = 0
    prompt: list[Message] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return self.num_turns == len(self.script)

    def begin(self, system: str, issue: str) -> None:
        self.prompt = [Message(role="system", text=system), Message(role="user", text=issue)]

    async def sample(self) -> Turn:
        self.num_turns += 1
        return Turn(start=0, end=0, text=self.script[self.num_turns - 1])

    def cut(self, observation: str) -> str:
        return truncate_by_bytes(observation, self.config.max_observation_tokens)

    def observe(self, observation: str) -> bool:
        return not self.is_full

    def columns(self) -> dict[str, Any]:
        return {"form": "messages", "prompt": self.prompt}

    def close(self) -> None:
        pass


@dataclass
class ReplayedDialogue(TokenDialogue):
    """Dialogue whose first messages are given, and the others sampled."""

    script: Sequence[str] = ()

    async def sample(self) -> Turn:
        if self.num_turns >= len(self.script):
            return await super().sample()
        started, start, text = time.monotonic(), len(self.history), self.script[self.num_turns]
        self.history.add_given(self.renderer.reply_ids(text))
        self.num_turns += 1
        return Turn(start=start, end=len(self.history), text=text, generate_s=time.monotonic() - started)


async def continue_episode(
    config: RunConfig, folder: RunFolder, request: ContinuationRequest, provider: SandboxProvider, progress: Progress
) -> Trajectory:
    """Continue an episode, and grade its patch. Raises UsageError, SandboxError, EngineError."""
    refuse_impossible(request, provider)
    tree = find_tree(config, folder, request.trajectory.instance_id)
    grader = Grader(provider, tests_timeout_s=config.rollouts.tests_timeout_s, num_workers=1)
    played = await play(config, folder, request, tree, provider, progress)
    grade = await grader.grade(tree, played.patch)
    return played.grow(grade=grade, outcome=grade.outcome, detail=played.detail or grade.detail)


def refuse_impossible(request: ContinuationRequest, provider: SandboxProvider) -> None:
    """Raise UsageError if there is nothing to run, or if the sandbox would not isolate the user's commands."""
    if not 0 <= request.num_replayed < request.trajectory.num_turns:
        raise UsageError(
            f"{request.trajectory.trajectory_id} has no turn {request.num_replayed + 1}: choose one of its turns"
        )
    if not request.messages:
        raise UsageError("there is no message to continue with: write one with a command")
    if provider.isolation == Isolation.NONE:
        raise UsageError(
            "the sandbox of this run does not isolate commands from this machine: use another sandbox.kind"
        )


def find_tree(config: RunConfig, folder: RunFolder, instance_id: str) -> TaskTree:
    """Find the working tree of a task. Raises UsageError if it is missing."""
    trees = (tree for known in read_known_sets(config, folder) for tree in known.list_trees())
    found = next((tree for tree in trees if tree.instance_id == instance_id), None)
    if found is None:
        raise UsageError(f"the working tree of {instance_id} is not on this machine: continue where the run was made")
    return found


async def play(
    config: RunConfig,
    folder: RunFolder,
    request: ContinuationRequest,
    tree: TaskTree,
    provider: SandboxProvider,
    progress: Progress,
) -> Trajectory:
    """Play the episode in a new sandbox. Its trajectory is not graded yet."""
    agent = find_limits(config, request)
    begun = request.trajectory.grow(
        trajectory_id=f"continued/{tree.instance_id}/{request.trajectory.index}", **UNPLAYED
    )
    scaffold = load_scaffold(config.agent.scaffold, config.agent.prompts, config.agent.tools)
    opened = open_dialogue(config, folder, request, agent, progress)
    async with opened as dialogue, started(provider, SandboxSpec.of(tree)) as sandbox:
        await set_up_for_agent(sandbox, tree)
        return await Episode(begun, tree.task, dialogue, sandbox, scaffold, agent).play()


def find_limits(config: RunConfig, request: ContinuationRequest) -> AgentConfig:
    """Find the agent's limits in the part of the run to which the trajectory belongs; without policy, the script is the limit."""
    kind, stage, *_ = f"{request.journal}/".split("/")
    stages = {RFT: config.rft, **{each.name: each for each in config.stages}}
    limits = stages.get(stage) if kind == "stages" else None
    own = {"max_turns": limits.max_turns, "max_context": limits.max_context} if limits else {}
    return config.agent.model_copy(update=own if request.by_policy else {**own, "max_turns": len(request.script)})


@asynccontextmanager
async def open_dialogue(
    config: RunConfig, folder: RunFolder, request: ContinuationRequest, agent: AgentConfig, progress: Progress
) -> AsyncIterator[Dialogue]:
    """Open the dialogue of a continued episode. It loads the policy if the policy is wanted. Raises UsageError."""
    if not request.by_policy:
        yield WrittenDialogue(request.script, agent)
        return
    policy = await open_policy(config, folder, progress)
    try:
        factory = policy.dialogues
        if not isinstance(factory, TokenDialogueFactory):
            raise UsageError("a policy behind an endpoint cannot continue an episode: continue without the policy")
        if config.training:
            checkpoint = find_checkpoint(config, folder)
            await factory.engine.load_weights(SavedWeights(checkpoint.num_done, checkpoint.directory))
        begun, sampling = request.trajectory, SamplingParams()
        name = f"continued/{begun.trajectory_id}"
        yield ReplayedDialogue(factory.engine, factory.renderer, agent, name, begun.seed, sampling, request.script)
    finally:
        await policy.close()
