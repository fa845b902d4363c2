"""Parser of chat servers' answers, including those that deviate from OpenAI's format.

Implausible token counts are replaced by estimates. HTTP errors are classified as transient faults or permanent refusals.
"""

import re
from typing import Any

from openai import APIStatusError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnsmith.engines.chat import MESSAGE_TOKENS, ChatRequest, Reply
from turnsmith.engines.endpoint.account import Usage
from turnsmith.io.http import is_busy, read_wait
from turnsmith.types import estimate_tokens
from turnsmith.types.conversations import encode

HIDDEN_TOKENS = 4_096
"""Maximum number of tokens that a server may add to a request, e.g. as system prompt; estimates replace higher input counts."""
CUT = ("length", "max_tokens")
"""Finish reasons of servers for a turn that reached the token limit."""
HOPELESS = {401, 402, 404}
"""HTTP statuses that every request would get, so retries are useless: wrong key (401), no money (402), unknown model (404)."""
_CONTEXT = re.compile(
    r"context.{0,12}(length|window|size)|maximum context|max_model_len|prompt is too long|too many tokens",
    re.IGNORECASE,
)
_MAX_CHARACTERS = 300
"""Maximum characters of a server's error message that are shown."""


class Lenient(BaseModel):
    """Base class of models for parts of a server's answer: types are checked strictly, unknown fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore")


class PromptDetails(Lenient):
    cached_tokens: int | None = Field(None, ge=0)


class TokenCounts(Lenient):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    prompt_tokens_details: PromptDetails | None = None


class ReplyMessage(Lenient):
    content: str | None = None
    refusal: str | None = None


class Choice(Lenient):
    message: ReplyMessage
    finish_reason: str | None = None


class Choices(Lenient):
    choices: list[Choice] = Field(min_length=1)


def read_usage(answer: dict[str, Any], request: ChatRequest) -> Usage:
    """Read the token counts of a server's answer, or estimate them if they are missing or invalid."""
    try:
        counts = TokenCounts.model_validate(answer.get("usage"))
    except ValidationError:
        choice = find_choice(answer)
        return estimate_usage(request, (choice and choice.message.content) or "")
    cached = (counts.prompt_tokens_details and counts.prompt_tokens_details.cached_tokens) or 0
    return Usage(
        input_tokens=counts.prompt_tokens,
        cached_tokens=min(cached, counts.prompt_tokens),
        output_tokens=counts.completion_tokens,
    )


def read_reply(answer: dict[str, Any], request: ChatRequest, usage: Usage) -> Reply:
    """Read the turn in a server's answer. Raises ValueError with a short reason if the answer holds no turn."""
    choice = find_choice(answer)
    if choice is None:
        raise ValueError(describe_error(answer) or "the answer is not a chat completion")
    text = encode(choice.message.content or "").decode()
    if choice.message.refusal:
        raise ValueError(f"the model refused to answer: {choice.message.refusal}")
    if choice.finish_reason == "content_filter":
        raise ValueError("the server's content filter stopped the answer")
    finish_reason = "length" if choice.finish_reason in CUT else "stop"
    if not text and finish_reason == "stop":
        raise ValueError("the answer is empty")
    believed = usage if is_plausible(usage, request) else estimate_usage(request, text)
    return Reply(text, finish_reason, believed.input_tokens, believed.output_tokens)


def is_plausible(usage: Usage, request: ChatRequest) -> bool:
    """Return True if the token counts are possible, given the bytes of the messages and the output limit."""
    num_bytes = sum(len(encode(message.text)) for message in request.messages)
    most = num_bytes + len(request.messages) * MESSAGE_TOKENS + HIDDEN_TOKENS
    return 0 < usage.input_tokens <= most and 0 < usage.output_tokens <= request.max_new_tokens


def estimate_usage(request: ChatRequest, text: str) -> Usage:
    """Estimate the token counts of a request and its answer from their bytes."""
    read = sum(estimate_tokens(message.text) + MESSAGE_TOKENS for message in request.messages)
    return Usage(input_tokens=read, output_tokens=estimate_tokens(text), is_estimated=True)


def find_choice(answer: dict[str, Any]) -> Choice | None:
    """Return the sampled choice in a server's answer; None if there is none."""
    try:
        return Choices.model_validate(answer).choices[0]
    except ValidationError:
        return None


def describe_error(body: object) -> str:
    """Return the error message in the body of a server's answer; empty if there is none."""
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""


class TransientError(Exception):
    """Failure of a request that a retry may fix. `wait_s` is the wait that the server asks for, or None."""

    def __init__(self, text: str, wait_s: float | None = None) -> None:
        super().__init__(text)
        self.wait_s = wait_s


class Refusal(Exception):
    """Error raised if the server refuses a request permanently, so that a retry would not help."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status

    @property
    def is_full(self) -> bool:
        """True if the server refused because the messages exceed the model's context."""
        return self.status in (400, 413, 422) and bool(_CONTEXT.search(str(self)))


def classify_error(error: APIStatusError) -> TransientError | Refusal:
    """Classify an HTTP error of the server as transient or permanent, by its status."""
    status = error.status_code
    message, code = describe_error(error.body), getattr(error, "code", None)
    text = f"HTTP {status} {message}".strip()[:_MAX_CHARACTERS]
    if code == "insufficient_quota":
        return Refusal(402, text)
    if is_busy(status):
        return TransientError(text, read_wait(error.response.headers))
    return Refusal(status, f"{text} {code or ''}".strip())
