"""Interface of message engines, for servers that return text without token ids."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from turnsmith.errors import EngineError
from turnsmith.types import Message, SamplingParams

MESSAGE_TOKENS = 8
"""Approximate tokens that a chat template adds to each message."""


class ContextFull(EngineError):
    """Error of a server whose context cannot hold the messages; retrying does not help."""


@dataclass(frozen=True)
class ChatRequest:
    """Request to sample one turn."""

    episode_id: str
    """Name of the episode; costs are recorded under its part before the first slash, e.g. `eval-base`."""
    messages: tuple[Message, ...]
    """Whole history so far, ending with a user message."""
    max_new_tokens: int
    seed: int
    """Random seed of the turn, 31 bits; a server may ignore it."""
    params: SamplingParams = field(default_factory=SamplingParams)


@dataclass(frozen=True)
class Reply:
    """Answer of a server's model."""

    text: str
    finish_reason: str
    """`stop` at the end of a turn, `length` at the token limit."""
    input_tokens: int
    """Tokens of the history, counted by the server or else estimated."""
    output_tokens: int
    """Sampled tokens, counted by the server or else estimated; includes hidden reasoning."""


@runtime_checkable
class ChatEngine(Protocol):
    """Engine that samples turns as text."""

    async def chat(self, request: ChatRequest) -> Reply:
        """Sample one turn. Raises EngineError, ContextFull, and UsageError if no request can succeed."""

    def remark(self) -> str:
        """Return the cost so far as readable text; empty if unknown."""

    async def close(self) -> None:
        """Close connections and refuse new requests. May be called twice."""
