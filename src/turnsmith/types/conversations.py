"""Text conversations without tokens and log-probs, and estimates of their tokens from UTF-8 bytes."""

from typing import Literal

from pydantic import model_validator

from turnsmith.types.records import Record

BYTES_PER_TOKEN = 4
"""Number of UTF-8 bytes per token, a rule of thumb for English text and code."""


class Message(Record):
    role: Literal["system", "user", "assistant"]
    text: str
    trains: bool = False
    """True if fine-tuning imitates the message; only assistant messages can be imitated."""


class Conversation(Record):
    """Published trajectory of another system: system message, user message, then alternating turns and observations."""

    conversation_id: str
    instance_id: str
    """Name of the task on which the conversation works."""
    messages: list[Message]
    resolved: bool
    """True if the data set states that the tests of the task passed."""
    patch: str = ""
    """Patch with which the conversation ended; empty if the data set has none."""
    created_by: str = ""
    """Name of the data set from which the conversation was read."""

    @model_validator(mode="after")
    def _in_turns(self) -> "Conversation":
        roles = [message.role for message in self.messages]
        turns = ["assistant" if number % 2 else "user" for number in range(len(roles) - 1)]
        if roles[:1] != ["system"] or roles[1:] != turns or len(roles) < 3:
            raise ValueError("a conversation needs a system message, then alternating user and assistant messages")
        if any(message.trains and message.role != "assistant" for message in self.messages):
            raise ValueError("only assistant messages can be imitated")
        return self


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text, e.g. `"a few words"` → 3."""
    return -(-len(encode(text)) // BYTES_PER_TOKEN)


def encode(text: str) -> bytes:
    """Encode a text as UTF-8; a lone surrogate becomes a question mark."""
    return text.encode(errors="replace")
