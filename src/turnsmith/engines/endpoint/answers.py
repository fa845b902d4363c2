"""What servers answer, read with care: little of it is taken, and no figure is believed that cannot be."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnsmith.engines.chat import MESSAGE_TOKENS, ChatRequest, Reply
from turnsmith.engines.endpoint.account import Usage
from turnsmith.types import estimate_tokens
from turnsmith.types.estimates import encode

HIDDEN_TOKENS = 4_096
"""What a server may put before the messages of its own accord."""
CUT = ("length", "max_tokens")
"""What servers call the end of a turn that was not over."""


class Lenient(BaseModel):
    """Part of an answer; numbers are numbers, and what else there is is passed over."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Cached(Lenient):
    cached_tokens: int | None = Field(None, ge=0)


class Figures(Lenient):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)
    prompt_tokens_details: Cached | None = None


class Said(Lenient):
    content: str | None = None
    refusal: str | None = None


class Choice(Lenient):
    message: Said
    finish_reason: str | None = None


class Choices(Lenient):
    choices: list[Choice] = Field(min_length=1)


def read_usage(answer: dict[str, Any], request: ChatRequest) -> Usage:
    """The server's own figures, or an estimate where it gives none."""
    try:
        figures = Figures.model_validate(answer.get("usage"))
    except ValidationError:
        return estimate_usage(request, find_text(answer))
    cached = (figures.prompt_tokens_details and figures.prompt_tokens_details.cached_tokens) or 0
    return Usage(
        input_tokens=figures.prompt_tokens,
        cached_tokens=min(cached, figures.prompt_tokens),
        output_tokens=figures.completion_tokens,
    )


def read_reply(answer: dict[str, Any], request: ChatRequest, usage: Usage) -> Reply:
    """The turn. Raises ValueError that says in a few words why there is none."""
    try:
        choice = Choices.model_validate(answer).choices[0]
    except ValidationError:
        raise ValueError(describe_error(answer) or "the answer is no chat completion") from None
    text = encode(choice.message.content or "").decode()
    if choice.message.refusal:
        raise ValueError(f"the server refused: {choice.message.refusal}")
    if choice.finish_reason == "content_filter":
        raise ValueError("the server's content filter stopped the answer")
    finish_reason = "length" if choice.finish_reason in CUT else "stop"
    if not text and finish_reason == "stop":
        raise ValueError("the answer is empty")
    believed = usage if is_plausible(usage, request) else estimate_usage(request, text)
    return Reply(text, finish_reason, believed.input_tokens, believed.output_tokens)


def is_plausible(usage: Usage, request: ChatRequest) -> bool:
    """Can it be? A token is a byte at least, and what was sampled is within the limit."""
    num_bytes = sum(len(encode(message.text)) for message in request.messages)
    most = num_bytes + len(request.messages) * MESSAGE_TOKENS + HIDDEN_TOKENS
    return 0 < usage.input_tokens <= most and 0 < usage.output_tokens <= request.max_new_tokens


def estimate_usage(request: ChatRequest, text: str) -> Usage:
    """By bytes."""
    read = sum(estimate_tokens(message.text) + MESSAGE_TOKENS for message in request.messages)
    return Usage(input_tokens=read, output_tokens=estimate_tokens(text), is_estimated=True)


def find_text(answer: dict[str, Any]) -> str:
    """What was said, if anything."""
    try:
        return Choices.model_validate(answer).choices[0].message.content or ""
    except ValidationError:
        return ""


def describe_error(body: object) -> str:
    """The message of an error, where the body of an answer has one."""
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""
