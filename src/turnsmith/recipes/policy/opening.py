"""Opening of the policy that the configuration's `[engine]` and `[trainer]` select."""

from functools import cache, partial
from typing import TYPE_CHECKING

from turnsmith.config import RunConfig
from turnsmith.engines.chat import ChatEngine
from turnsmith.errors import UsageError
from turnsmith.recipes.policy.base import OpenEngine, Policy, PolicySetup, find_chat_facts
from turnsmith.recipes.policy.endpoint import MessagePolicy
from turnsmith.recipes.policy.names import ENGINES
from turnsmith.runs.folder import RunFolder
from turnsmith.tracking import Progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel


async def open_policy(config: RunConfig, folder: RunFolder, progress: Progress) -> Policy:
    """Open the engine that the configuration names, and the policy around it. Raises UsageError, EngineError."""
    load = cache(partial(load_base, config))
    setup = PolicySetup(config, load, folder.server_logs, folder.costs, progress)
    open_engine: OpenEngine = ENGINES.bind(config.engine.kind, config.engine.options, "engine.options")
    engine = await open_engine(setup)
    if isinstance(engine, ChatEngine):
        if not find_chat_facts(config.engine.kind):
            await engine.close()
            raise UsageError(
                f"engine.kind {config.engine.kind} opens a chat engine: mark its function with "
                "@turnsmith.recipes.policy.base.chat_engine"
            )
        return MessagePolicy(engine)
    # A policy of messages needs no torch.
    from turnsmith.recipes.policy.local import build_policy

    try:
        return build_policy(engine, setup)
    except BaseException:
        engine.close()
        raise


def load_base(config: RunConfig) -> "PreTrainedModel":
    """Load the base model on its device. Raises UsageError."""
    # A policy of messages needs no torch.
    from turnsmith.training.activations.checkpointing import limit_activations
    from turnsmith.training.model import load_model

    model = load_model(config.model)
    limit_activations(model, config.trainer)
    return model
