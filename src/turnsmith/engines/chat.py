"""Interface of message engines, for model servers that return text without token ids."""

from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from turnsmith.errors import EngineError
from turnsmith.types import Message, SamplingParams

MESSAGE_TOKENS = 8
"""Approximate tokens that a chat template adds to each message, for estimates of a conversation's length."""


class ContextFull(EngineError):
    """Error raised if the messages exceed the context of the server's model; a retry would not help."""


@dataclass(frozen=True)
class ChatRequest:
    """Request to a message engine for one turn of an episode."""

    episode_id: str
    """Name of the episode. Its part before the first slash, e.g. `eval-base`, is the stage under which costs are recorded."""
    messages: tuple[Message, ...]
    """All messages of the episode so far; the last one is a user message."""
    max_new_tokens: int
    seed: int
    """Random seed of the turn, 31 bits. Some servers ignore the seed."""
    params: SamplingParams = field(default_factory=SamplingParams)


@dataclass(frozen=True)
class Reply:
    """Turn that a server's model sampled, with token counts."""

    text: str
    finish_reason: str
    """`stop` if the model ended the turn, `length` if the token limit cut it."""
    input_tokens: int
    """Number of tokens in the request's messages, counted by the server or else estimated."""
    output_tokens: int
    """Number of sampled tokens, hidden reasoning included; counted by the server or else estimated."""
    trains: bool = True
    """False if fine-tuning must not imitate the turn, e.g. a mistake of a scripted expert."""


@runtime_checkable
class ChatEngine(Protocol):
    """Engine that samples turns of a model as text."""

    async def chat(self, request: ChatRequest) -> Reply:
        """Sample one turn. Raises ContextFull, EngineError, or UsageError if later requests would fail too (e.g. wrong key)."""

    def status(self) -> str:
        """Return the cost of all requests so far as readable text; empty if unknown."""

    async def close(self) -> None:
        """Close the engine's connections and refuse new requests. May be called twice."""
