"""What an engine of messages offers: messages in, text out. Beside `Engine`, for servers that give no token ids."""

from dataclasses import dataclass, field
from typing import Protocol

from turnsmith.errors import EngineError
from turnsmith.types import Message, SamplingParams

MESSAGE_TOKENS = 8
"""What a chat template puts around a message, about."""


class ContextFull(EngineError):
    """The server's context does not hold the messages; not its fault, and nothing to try again."""


@dataclass(frozen=True)
class ChatRequest:
    """One turn to sample."""

    episode_id: str
    """Its part before the first slash, such as `eval-base`, is what the cost is booked under."""
    messages: tuple[Message, ...]
    """The whole history so far; it ends with a user's."""
    max_new_tokens: int
    seed: int
    """Seed of this turn's sampling noise, 31 bits; a server may ignore it."""
    params: SamplingParams = field(default_factory=SamplingParams)


@dataclass(frozen=True)
class Reply:
    """What the server's model said."""

    text: str
    finish_reason: str
    """`stop` where the model ended its turn, `length` at the token limit."""
    input_tokens: int
    """Of the history, by the server's own count, or as estimated where that cannot be."""
    output_tokens: int
    """The same of what was sampled; of a reasoning model more than the text has."""


class ChatEngine(Protocol):
    """Samples turns as text."""

    async def chat(self, request: ChatRequest) -> Reply:
        """One turn. Raises EngineError, ContextFull among them, and UsageError where no request can succeed."""

    def remark(self) -> str:
        """What it has cost so far, for people; empty where that is not known."""

    async def close(self) -> None:
        """Take no more, and hang up. Safe to call twice."""
