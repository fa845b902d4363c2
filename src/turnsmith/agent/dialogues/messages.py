"""Dialogues in messages, for servers without token ids.

The number of tokens in the context is the server's last count, plus an estimate for messages added since.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from turnsmith.agent.dialogues.base import turn_seed
from turnsmith.chat.truncation import check_bytes, truncate_by_bytes
from turnsmith.config import AgentConfig
from turnsmith.engines.chat import MESSAGE_TOKENS, ChatEngine, ChatRequest, ContextFull
from turnsmith.types import Message, SamplingParams, Trajectory, Turn, estimate_tokens

_SEED_BITS = 31
"""Number of bits of random seeds in requests; some servers reject longer seeds."""


@dataclass
class MessageDialogue:
    """Dialogue with an engine that gets messages and returns text."""

    engine: ChatEngine
    config: AgentConfig
    episode_id: str
    seed: int
    decoding: SamplingParams | None = None
    messages: list[Message] = field(default_factory=list, init=False)
    num_tokens: int = field(default=0, init=False)
    """Number of tokens in the dialogue: the last count that the server reported, plus estimates."""
    prompt_tokens: int = field(default=0, init=False)
    num_turns: int = field(default=0, init=False)

    def begin(self, system: str, issue: str) -> None:
        self.messages = [Message(role="system", text=system), Message(role="user", text=issue)]
        self.num_tokens = self.prompt_tokens = estimate_prompt(system, issue)

    async def sample(self) -> Turn:
        """Ask the server for the next turn.

        If the dialogue exceeds the context, return an empty turn with finish reason `length`.
        """
        started = time.monotonic()
        try:
            reply = await self.engine.chat(self._request())
        except ContextFull:
            self.num_tokens = self.config.max_context
            return Turn(start=self.num_tokens, end=self.num_tokens, text="", finish_reason="length")
        self.num_turns += 1
        self.messages.append(Message(role="assistant", text=reply.text))
        self.num_tokens = reply.input_tokens + reply.output_tokens
        if self.num_turns == 1:
            self.prompt_tokens = reply.input_tokens
        return Turn(
            start=reply.input_tokens,
            end=self.num_tokens,
            text=reply.text,
            finish_reason=reply.finish_reason,
            trains=reply.trains,
            generate_s=time.monotonic() - started,
        )

    def _request(self) -> ChatRequest:
        return ChatRequest(
            episode_id=self.episode_id,
            messages=tuple(self.messages),
            max_new_tokens=min(self.config.max_new_tokens, self._room),
            seed=turn_seed(self.seed, self.num_turns) % 2**_SEED_BITS,
            params=self.decoding or SamplingParams(),
        )

    def cut(self, observation: str) -> str:
        return truncate_by_bytes(observation, self.config.max_observation_tokens)

    def observe(self, observation: str) -> bool:
        added = estimate_tokens(observation) + MESSAGE_TOKENS
        if added >= self._room:
            return False
        self.messages.append(Message(role="user", text=observation))
        self.num_tokens += added
        return True

    @property
    def is_full(self) -> bool:
        return self._room == 0

    @property
    def _room(self) -> int:
        """Return the number of tokens that still fit into the context."""
        return max(0, self.config.max_context - self.num_tokens)

    def columns(self) -> dict[str, Any]:
        return {"form": "messages", "prompt": self.messages[:2], "prompt_tokens": self.prompt_tokens}

    def close(self) -> None:
        """Do nothing: the server keeps no state of a dialogue."""


@dataclass(frozen=True)
class MessageDialogueFactory:
    """Factory of dialogues with an engine that gets messages and returns text."""

    engine: ChatEngine

    def open(self, begun: Trajectory, config: AgentConfig, decoding: SamplingParams | None = None) -> MessageDialogue:
        return MessageDialogue(self.engine, config, begun.trajectory_id, begun.seed, decoding)

    def count_prompt(self, system: str, issue: str) -> int:
        return estimate_prompt(system, issue)

    def check_budget(self, max_tokens: int) -> None:
        check_bytes(max_tokens)

    def status(self) -> str:
        return self.engine.status()


def estimate_prompt(system: str, issue: str) -> int:
    """Estimate the number of tokens of a first prompt."""
    return estimate_tokens(system) + estimate_tokens(issue) + 2 * MESSAGE_TOKENS
