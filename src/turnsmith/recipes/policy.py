"""The policy at hand: one set of weights that the trainer changes and the engine samples from, and what belongs to it."""

from dataclasses import dataclass
from pathlib import Path

from transformers import PreTrainedModel

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.tokenizers import load_tokenizer
from turnsmith.config import RunConfig
from turnsmith.engines.inprocess import InProcessEngine
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
    engine = InProcessEngine(model, max_context=longest_context(config), num_slots=config.rollouts.concurrency)
    return Policy(model, renderer, engine)


def longest_context(config: RunConfig) -> int:
    """The longest context of any part of the run, in tokens."""
    rft = [config.rft.max_context] if config.rft else []
    return max([config.agent.max_context, *rft, *(stage.max_context for stage in config.stages)])
