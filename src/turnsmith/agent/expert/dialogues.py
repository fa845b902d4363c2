"""Dialogues of the loop with an expert in place of a model."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from turnsmith.agent.dialogues.messages import MessageDialogue, estimate_prompt
from turnsmith.agent.expert.expert import Expert, Habits, SolvedTask
from turnsmith.agent.expert.hands import Hands
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.chat.truncation import check_bytes
from turnsmith.config import AgentConfig
from turnsmith.engines.chat import ChatRequest, Reply
from turnsmith.types import SamplingParams, Trajectory, estimate_tokens

BYTES_PER_TOKEN = 2
"""Bytes of code per token, estimated so low that few tokenizers need more tokens."""
FRAME_BYTES = 100
"""Bytes of a turn around the text of an edit: thought, fence, place."""


@dataclass(frozen=True)
class ExpertEngine:
    """Message engine that answers as an expert in one episode."""

    expert: Expert

    async def chat(self, request: ChatRequest) -> Reply:
        """Return the expert's next turn after the last message; before the first turn, the expert reads the issue alone."""
        self.expert.read(request.messages[-1].text)
        text, move = self.expert.choose()
        num_input = sum(estimate_tokens(message.text) for message in request.messages)
        is_cut = len(text.encode()) > BYTES_PER_TOKEN * request.max_new_tokens
        reason = "length" if is_cut else "stop"
        return Reply(text, reason, num_input, estimate_tokens(text), trains=not move.is_mistake)

    def status(self) -> str:
        """Return "": an expert costs nothing."""
        return ""

    async def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class ExpertDialogues:
    """Factory of dialogues with experts, one expert per episode."""

    solutions: Mapping[str, SolvedTask]
    """Id of a task → its solution."""
    scaffold: Scaffold
    habits: Habits

    def open(self, begun: Trajectory, config: AgentConfig, decoding: SamplingParams | None = None) -> MessageDialogue:
        hands = Hands([tool.name for tool in self.scaffold.tools], config.window_lines)
        max_bytes = BYTES_PER_TOKEN * config.max_new_tokens - FRAME_BYTES
        expert = Expert(self.solutions[begun.instance_id], hands, self.habits, random.Random(begun.seed), max_bytes)
        return MessageDialogue(ExpertEngine(expert), config, begun.trajectory_id, begun.seed, decoding)

    def count_prompt(self, system: str, issue: str) -> int:
        return estimate_prompt(system, issue)

    def check_budget(self, max_tokens: int) -> None:
        check_bytes(max_tokens)

    def status(self) -> str:
        return ""
