"""Interfaces of policies, and of functions that open engines and trainers. Imports no torch."""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from turnsmith.agent.dialogues.base import DialogueFactory
from turnsmith.config import OptimizerConfig, RunConfig
from turnsmith.engines.base import Engine, WeightSource
from turnsmith.engines.chat import ChatEngine
from turnsmith.errors import UsageError
from turnsmith.recipes.policy.names import ENGINES, TOKEN_ENGINES
from turnsmith.tracking import Progress

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from turnsmith.training.base import Trainer


class Policy(Protocol):
    """Model that writes the turns of all episodes: a model that the run can train, or the model of an endpoint."""

    @property
    def dialogues(self) -> DialogueFactory:
        """Return the factory that makes a dialogue with the model for each episode."""

    async def close(self) -> None:
        """Close the engine of the policy."""


@dataclass(frozen=True)
class PolicySetup:
    """Arguments of the functions that open an engine or a trainer."""

    config: RunConfig
    model: "Callable[[], PreTrainedModel]"
    """Function that loads the base model at its first call. Engine and trainer share this model."""
    logs: Path
    """Folder for the logs of model servers and ranks."""
    costs: Path
    """File for the costs of requests to an endpoint."""
    progress: Progress
    resources: ExitStack = field(default_factory=ExitStack)
    """Resources that end with the policy, such as the connection to Ray."""


@dataclass(frozen=True)
class Start:
    """Arguments of a trainer that depend on the stage: optimizer settings, initial weights, number of steps."""

    optimizer: OptimizerConfig
    total_steps: int
    """Number of optimizer steps of the stage; 0 if unknown."""
    weights: WeightSource


F = TypeVar("F", bound=Callable[..., Awaitable[ChatEngine]])


@dataclass(frozen=True)
class ChatFacts:
    """Facts about an engine that exchanges messages. Such an engine can be evaluated, but not trained."""

    name_model: Callable[[RunConfig], str]
    """Function that names the model in predictions."""
    check: Callable[[RunConfig], object]
    """Function that checks the configuration and this machine before a run. Raises UsageError."""


def chat_engine(
    name_model: Callable[[RunConfig], str], check: Callable[[RunConfig], object] = lambda config: None
) -> Callable[[F], F]:
    """Decorate a function or class that opens a ChatEngine: attach the `ChatFacts` of the engine."""

    def mark(open_engine: F) -> F:
        open_engine.chat = ChatFacts(name_model, check)  # type: ignore[attr-defined]
        return open_engine

    return mark


def find_chat_facts(kind: str) -> ChatFacts | None:
    """Find the facts about an engine that exchanges messages; None for other engines and those that cannot be loaded."""
    with suppress(UsageError):
        return None if kind in TOKEN_ENGINES else getattr(ENGINES.load(kind), "chat", None)
    return None


OpenEngine = Callable[[PolicySetup], Awaitable[Engine | ChatEngine]]
"""Signature of every function that opens an engine. Raises UsageError, EngineError."""
OpenTrainer = Callable[[PolicySetup, Start], "Awaitable[Trainer]"]
"""Signature of every function that opens a trainer. Raises UsageError."""
