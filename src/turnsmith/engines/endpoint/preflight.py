"""Checks of an endpoint before a run: server reachable, key valid, model known."""

from typing import Any

from openai import APIConnectionError, APIStatusError

from turnsmith.engines.chat import ChatRequest
from turnsmith.engines.endpoint.answers import Refusal, describe_error
from turnsmith.engines.endpoint.engine import EndpointEngine, describe, to_object
from turnsmith.errors import UsageError
from turnsmith.types import Message

CONTEXT_KEYS = ("max_model_len", "context_length", "context_window")
"""Keys under which servers list a model's context length: vLLM and SGLang, OpenRouter, Groq."""
STAGE = "check"
_SHOWN = 5


async def check_endpoint(engine: EndpointEngine, max_context: int, max_new_tokens: int) -> list[str]:
    """Check that the server lists the model and answers one short request; return warnings for the log.

    Raises UsageError, EngineError.
    """
    config, models = engine.config, await list_models(engine)
    listed = {str(model.get("id")): model for model in models}
    for key in CONTEXT_KEYS:
        longest = listed.get(config.model, {}).get(key)
        if isinstance(longest, int) and longest < max_context:
            raise UsageError(
                f"agent.max_context is {max_context}, but {config.model} at {config.address} takes only {longest} tokens: "
                f"give --agent.max_context {longest} or less"
            )
    await try_turn(engine, max_new_tokens, [*listed])
    if listed and config.model not in listed:
        return [f"warning: {config.address} answers for {config.model}, but does not list it: it may be another model"]
    return []


async def list_models(engine: EndpointEngine) -> list[dict[str, Any]]:
    """List the models that the server offers; empty if the server publishes no list. Raises UsageError."""
    try:
        raw = await engine.client.models.with_raw_response.list()
        found = to_object(raw.content.decode()).get("data")
    except APIStatusError as error:
        raise_if_key_rejected(engine, error.status_code, describe_error(error.body))
        return []
    except APIConnectionError as error:
        raise UsageError(
            f"no server answers at {engine.config.address} ({describe(error)}): start it, or give another engine.openai.address"
        ) from None
    except ValueError:
        return []
    return [model for model in found if isinstance(model, dict)] if isinstance(found, list) else []


async def try_turn(engine: EndpointEngine, max_new_tokens: int, names: list[str]) -> None:
    """Request a short turn with the run's parameters, to check that the server accepts them. Raises UsageError, EngineError."""
    config, messages = engine.config, (Message(role="system", text="Be brief."), Message(role="user", text="Say OK."))
    try:
        await engine.chat_with_retries(ChatRequest(f"{STAGE}/0", messages, max_new_tokens, seed=0))
    except Refusal as refusal:
        raise_if_key_rejected(engine, refusal.status, str(refusal))
        message = engine.hide(str(refusal))
        if refusal.status == 404:
            others = f"it has {', '.join(names[:_SHOWN])}" if names else "or end the address in /v1"
            raise UsageError(
                f"{config.address} knows no model {config.model} ({message}): give another engine.openai.model; {others}"
            ) from None
        raise UsageError(
            f"{config.address} refuses a short test request ({message}): omit a parameter by engine.openai.leave_out, add one by "
            "extra_body, or rename the parameter for the maximum tokens of a turn by max_tokens_key"
        ) from None


def raise_if_key_rejected(engine: EndpointEngine, status: int, message: str) -> None:
    """Raise UsageError if the HTTP status says that the server rejects the API key."""
    if status in (401, 403):
        name = engine.config.key_variable
        key = f"the key in the environment variable {name}" if name else "a request without a key"
        raise UsageError(
            f"{engine.config.address} does not take {key} (HTTP {status}{engine.hide(f': {message}') if message else ''}): "
            "set engine.openai.key_variable to the environment variable that holds a valid key"
        )
