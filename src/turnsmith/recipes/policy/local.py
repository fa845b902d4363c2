"""Policy that samples token ids and can be trained; engine and trainer that share a model in this process."""

from dataclasses import dataclass
from pathlib import Path

import torch

from turnsmith.agent.dialogues.tokens import TokenDialogueFactory
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.tokenizers import load_renderer
from turnsmith.config import OptimizerConfig
from turnsmith.engines.base import Engine, SavedWeights, SleepingEngine, StreamedWeights, WeightSource
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.engines.weights import load_weights
from turnsmith.recipes.policy.base import OpenTrainer, PolicySetup, Start
from turnsmith.recipes.policy.names import TRAINERS
from turnsmith.training.base import Trainer
from turnsmith.training.directories import find_model
from turnsmith.training.footprint import longest_context
from turnsmith.training.local import LocalTrainer
from turnsmith.training.memory import plan_cache
from turnsmith.training.optimizer import require_moments


@dataclass
class TokenPolicy:
    """Policy that samples token ids: engine, current weights, and the function that opens a trainer."""

    renderer: ChatRenderer
    engine: Engine
    weights: WeightSource
    setup: PolicySetup
    open_trainer: OpenTrainer

    @property
    def dialogues(self) -> TokenDialogueFactory:
        return TokenDialogueFactory(self.engine, self.renderer)

    async def rest(self) -> None:
        """Let an engine that shares GPUs with the trainer free their memory until `take`. Raises EngineError."""
        if isinstance(self.engine, SleepingEngine):
            await self.engine.sleep()

    async def start_training(self, optimizer: OptimizerConfig, total_steps: int = 0) -> Trainer:
        """Open a trainer for one stage, with a new optimizer over the current weights."""
        return await self.open_trainer(self.setup, Start(optimizer, total_steps, self.weights))

    async def take(self, weights: WeightSource, checkpoint: Path | None = None) -> None:
        """Load weights into the engine, and start later trainers from them. Raises UsageError if they do not fit the model.

        `checkpoint` holds the same weights. Later trainers start from it if `weights` are a stream, which ends with its trainer.
        """
        await self.engine.load_weights(weights)
        if checkpoint and isinstance(weights, StreamedWeights):
            weights = SavedWeights(weights.policy_version, checkpoint)
        self.weights = weights

    async def close(self) -> None:
        self.engine.close()
        self.setup.resources.close()


def build_policy(engine: Engine, setup: PolicySetup) -> TokenPolicy:
    """Build a policy that samples with `engine`, from the base model on. Raises UsageError for an unusable model or trainer."""
    directory = find_model(setup.config.model.path)
    renderer = load_renderer(directory, setup.config.model.chat)
    trainer = setup.config.trainer
    require_moments(trainer.moments)
    open_trainer = TRAINERS.bind(trainer.kind, trainer.options, "trainer.options")
    return TokenPolicy(renderer, engine, SavedWeights(0, directory), setup, open_trainer)


async def open_inprocess_engine(setup: PolicySetup) -> InProcessEngine:
    """Open an engine in this process. Raises UsageError before it loads the model if memory is too small for the run."""
    config = setup.config
    num_blocks = plan_cache(config, find_model(config.model.path))
    dtype = getattr(torch, config.model.dtype)
    return InProcessEngine(setup.model(), max_context=longest_context(config), num_blocks=num_blocks, dtype=dtype)


async def open_local_trainer(setup: PolicySetup, start: Start, cls: type[LocalTrainer] = LocalTrainer) -> LocalTrainer:
    """Open a trainer of class `cls`. The trainer updates the weights that it shares with the engine in this process."""
    model = setup.model()
    if isinstance(start.weights, SavedWeights):
        load_weights(start.weights.directory, model)
    dtype = getattr(torch, setup.config.model.dtype)
    moments = setup.config.trainer.moments
    return cls(model, start.optimizer, start.total_steps, start.weights.policy_version, dtype, moments)
