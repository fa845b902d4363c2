"""Policy of a model behind an OpenAI-compatible address, which is evaluated and never trained."""

import os
from dataclasses import dataclass

from turnsmith.agent.dialogues.messages import MessageDialogueFactory
from turnsmith.config import EndpointConfig, RunConfig
from turnsmith.config.extras import require
from turnsmith.engines.chat import ChatEngine
from turnsmith.errors import UsageError
from turnsmith.recipes.policy.base import PolicySetup, chat_engine


@dataclass(frozen=True)
class MessagePolicy:
    """Policy of a chat engine, which exchanges messages and cannot be trained."""

    engine: ChatEngine

    @property
    def dialogues(self) -> MessageDialogueFactory:
        return MessageDialogueFactory(self.engine)

    async def close(self) -> None:
        await self.engine.close()


def check_configuration(config: RunConfig) -> None:
    """Check an endpoint's configuration without a request to the server. Raises UsageError."""
    require("openai", subject=f"engine.kind {config.engine.kind}")
    read_key(section(config))


def section(config: RunConfig) -> EndpointConfig:
    """Return the configuration's section `engine.openai`. Raises UsageError if it is missing."""
    if not config.engine.openai:
        raise UsageError(
            "engine.openai.address and engine.openai.model are missing: give the server's address and model name"
        )
    return config.engine.openai


def read_key(endpoint: EndpointConfig) -> str:
    """Read the API key from the environment; empty if none is configured. Raises UsageError if it is unset or malformed."""
    name = endpoint.key_variable
    if name and not os.environ.get(name):
        raise UsageError(
            f"the environment variable {name} (engine.openai.key_variable) is not set: export the key in it"
        )
    key = os.environ[name].strip() if name else ""
    if not all("!" <= character <= "~" for character in key):
        raise UsageError(
            f"the environment variable {name} holds no key: it has spaces, line breaks or letters beyond ASCII"
        )
    return key


@chat_engine(name_model=lambda config: section(config).model, check=check_configuration)
async def open_endpoint(setup: PolicySetup) -> ChatEngine:
    """Open the engine of an endpoint after its server has answered. Raises UsageError, EngineError."""
    # The client is an extra, and takes a second to import.
    from turnsmith.engines.endpoint.account import Account
    from turnsmith.engines.endpoint.engine import EndpointEngine
    from turnsmith.engines.endpoint.preflight import check_endpoint

    agent, endpoint = setup.config.agent, section(setup.config)
    engine = EndpointEngine(endpoint, read_key(endpoint), Account(setup.costs, endpoint.prices))
    try:
        for remark in await check_endpoint(engine, agent.max_context, agent.max_new_tokens):
            setup.progress.log(remark)
    except BaseException:
        await engine.close()
        raise
    return engine
