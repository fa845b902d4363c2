"""The policy at hand: one set of weights that the trainer changes and the engine samples from, and what belongs to it."""

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.tokenizers import load_tokenizer
from turnsmith.config import RunConfig
from turnsmith.engines.inprocess import InProcessEngine
from turnsmith.engines.kv_memory import AUTOMATIC_SHARE, GIB, free_bytes, size_cache
from turnsmith.training.checkpoint import load_weights
from turnsmith.training.directories import find_model
from turnsmith.training.model import load_model


@dataclass
class Policy:
    """Weights, tokenizer and the engine that samples from them."""

    model: PreTrainedModel
    renderer: ChatRenderer
    engine: InProcessEngine

    def load(self, checkpoint: Path, policy_version: int) -> None:
        """Take the weights of a checkpoint. Raises UsageError where it is none."""
        load_weights(checkpoint, self.model)
        self.engine.on_new_weights(policy_version)


def load_policy(config: RunConfig) -> Policy:
    """Load the base. Raises UsageError for a model that cannot serve."""
    directory = find_model(config.model.path)
    renderer = ChatRenderer(load_tokenizer(directory))
    model = load_model(config.model)
    return Policy(model, renderer, make_engine(model, config))


def make_engine(model: PreTrainedModel, config: RunConfig) -> InProcessEngine:
    """The engine, with what memory the configuration gives it, or half of what is free."""
    dtype, max_context = getattr(torch, config.model.dtype), longest_context(config)
    budget_gb = config.engine.kv_memory_gb
    num_blocks = size_cache(
        model.config,
        dtype,
        max_context=max_context,
        num_episodes=config.rollouts.concurrency,
        num_bytes=AUTOMATIC_SHARE * free_bytes(model.device) if budget_gb is None else budget_gb * GIB,
    )
    return InProcessEngine(model, max_context=max_context, num_blocks=num_blocks, dtype=dtype)


def longest_context(config: RunConfig) -> int:
    """The longest context of any part of the run, in tokens."""
    rft = [config.rft.max_context] if config.rft else []
    return max([config.agent.max_context, *rft, *(stage.max_context for stage in config.stages)])
