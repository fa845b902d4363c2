"""Interfaces of policies and of the functions that open engines and trainers. Imports no torch."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from turnsmith.agent.dialogues.base import DialogueFactory
from turnsmith.config import OptimizerConfig, RunConfig
from turnsmith.engines.base import Engine, WeightSource
from turnsmith.engines.chat import ChatEngine
from turnsmith.tracking import Progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from turnsmith.training.base import Trainer


class Policy(Protocol):
    """Source of the turns of all episodes: a model that is trained here, or the model of an endpoint."""

    @property
    def dialogues(self) -> DialogueFactory:
        """Return the factory of the episodes' dialogues."""

    async def close(self) -> None:
        """Release the engine."""


@dataclass(frozen=True)
class PolicySetup:
    """Inputs of a function that opens an engine or a trainer."""

    config: RunConfig
    model: "Callable[[], PreTrainedModel]"
    """Function that returns the base model of this process, loaded at the first call. Engine and trainer share it."""
    logs: Path
    """Folder for the logs of servers."""
    costs: Path
    """File for the cost account of an endpoint."""
    progress: Progress


@dataclass(frozen=True)
class Start:
    """Start of a training stage."""

    optimizer: OptimizerConfig
    total_steps: int
    """Optimizer steps of the stage; 0 if unknown."""
    weights: WeightSource


OpenEngine = Callable[[PolicySetup], Awaitable[Engine | ChatEngine]]
"""Signature of every function that opens an engine. Raises UsageError, EngineError."""
OpenTrainer = Callable[[PolicySetup, Start], "Awaitable[Trainer]"]
"""Signature of every function that opens a trainer. Raises UsageError."""
