"""The policy at hand: an engine that samples from it, trainers that change it, and the weights that both stand at.

Engine and trainer are chosen by `[engine]` and `[trainer]`. What makes one takes the configuration and the base model of this
process, which is loaded when someone first asks for it: engine and trainer that both ask share it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from turnsmith.agent.dialogues.tokens import TokenSpeaker
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.tokenizers import load_renderer
from turnsmith.config import OptimizerConfig, RunConfig
from turnsmith.config.names import load_by_name
from turnsmith.engines.base import Engine, SavedWeights, WeightSource
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.engines.weights import load_weights
from turnsmith.training.base import Trainer
from turnsmith.training.directories import find_model
from turnsmith.training.local import LocalTrainer
from turnsmith.training.memory import longest_context, plan_cache
from turnsmith.training.model import load_model, recompute_layers

Model = Callable[[], PreTrainedModel]
"""The base model of this process, loaded at the first call."""


@dataclass(frozen=True)
class Start:
    """How a stage of training begins."""

    optimizer: OptimizerConfig
    total_steps: int
    """Of the stage; 0 where that is not known."""
    weights: WeightSource


@dataclass
class Policy:
    """The weights that the recipe has come to, and who works with them."""

    renderer: ChatRenderer
    engine: Engine
    weights: WeightSource
    open_trainer: Callable[[Start], Trainer]

    @property
    def speaker(self) -> TokenSpeaker:
        """What episodes are said in."""
        return TokenSpeaker(self.engine, self.renderer)

    def start_training(self, optimizer: OptimizerConfig, total_steps: int = 0) -> Trainer:
        """A trainer for one stage, with a new optimizer over the weights at hand."""
        return self.open_trainer(Start(optimizer, total_steps, self.weights))

    async def take(self, weights: WeightSource) -> None:
        """Sample from these weights, and train them, from now on. Raises UsageError where they do not fit."""
        await self.engine.load_weights(weights)
        self.weights = weights

    async def close(self) -> None:
        self.engine.close()


def load_policy(config: RunConfig, logs: Path | None = None) -> Policy:
    """The base policy; servers of vLLM write their logs to the folder `logs`.

    Raises UsageError for a model that cannot serve, and for an engine or trainer that nobody knows.
    """
    directory = find_model(config.model.path)
    renderer = load_renderer(directory, config.model.chat)
    model: Model = cache(partial(load_base, config))
    open_engine = load_by_name("engine", config.engine.kind)
    if config.engine.kind == "vllm":  # the others start no server, and anybody's own takes two arguments
        open_engine = partial(open_engine, logs=logs)
    open_trainer = load_by_name("trainer", config.trainer.kind)
    return Policy(
        renderer, open_engine(config, model), SavedWeights(0, directory), partial(open_trainer, config, model)
    )


def load_base(config: RunConfig) -> PreTrainedModel:
    """The base model, on its device, with activation checkpointing where the configuration says so. Raises UsageError."""
    model = load_model(config.model)
    if config.trainer.activation_checkpointing:
        recompute_layers(model)
    return model


def open_inprocess_engine(config: RunConfig, model: Model) -> Engine:
    """Samples from the model of this process, with what memory the configuration or the machine gives it.

    Raises UsageError, before anything is loaded, where the run would not fit.
    """
    num_blocks = plan_cache(config, find_model(config.model.path))
    dtype = getattr(torch, config.model.dtype)
    return InProcessEngine(model(), max_context=longest_context(config), num_blocks=num_blocks, dtype=dtype)


def open_local_trainer(config: RunConfig, model: Model, start: Start) -> Trainer:
    """Trains the model of this process, in place."""
    if isinstance(start.weights, SavedWeights):
        load_weights(start.weights.directory, model())
    return LocalTrainer(
        model(), start.optimizer, start.total_steps, start.weights.policy_version, getattr(torch, config.model.dtype)
    )
