"""A model behind an OpenAI-compatible address, which plays in place of the policy: evaluated, and never trained here."""

import os
from dataclasses import dataclass
from pathlib import Path

from turnsmith.agent.dialogues.messages import MessageSpeaker
from turnsmith.config import EndpointConfig, RunConfig
from turnsmith.config.extras import require
from turnsmith.engines.chat import ChatEngine
from turnsmith.errors import UsageError
from turnsmith.tracking import Progress

KIND = "openai"


@dataclass(frozen=True)
class Endpoint:
    """Who plays where nothing of ours does."""

    engine: ChatEngine

    @property
    def speaker(self) -> MessageSpeaker:
        """What episodes are said in."""
        return MessageSpeaker(self.engine)

    async def close(self) -> None:
        await self.engine.close()


def check_configuration(config: RunConfig) -> None:
    """What can be known without asking the server. Raises UsageError."""
    if config.rft or config.stages:
        raise UsageError(
            "engine.kind openai gives text, no token ids and no log-probs, which RFT and RL train on: to train what a server of "
            "vLLM samples, take engine.kind vllm with engine.vllm.address; to imitate this model, evaluate it on training "
            "tasks, and name that run folder in rft.conversations of a run of another engine"
        )
    require("openai", subject="engine.kind openai")
    read_key(section(config))


def section(config: RunConfig) -> EndpointConfig:
    """The part of the configuration, which this kind of engine never lacks."""
    assert config.engine.openai
    return config.engine.openai


def read_key(endpoint: EndpointConfig) -> str:
    """The key; empty where the server wants none. Raises UsageError where the environment does not hold it."""
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


async def open_endpoint(config: RunConfig, costs: Path, progress: Progress) -> Endpoint:
    """The model, once its server has answered; `costs` is the file of its account. Raises UsageError, and EngineError."""
    # The client is an extra, and takes a second to import.
    from turnsmith.engines.endpoint.account import Account
    from turnsmith.engines.endpoint.engine import EndpointEngine
    from turnsmith.engines.endpoint.preflight import check_endpoint

    endpoint = section(config)
    engine = EndpointEngine(endpoint, read_key(endpoint), Account(costs, endpoint.prices))
    try:
        for remark in await check_endpoint(engine, config.agent.max_context, config.agent.max_new_tokens):
            progress.say(remark)
    except BaseException:
        await engine.close()
        raise
    return Endpoint(engine)
