"""One exception per boundary that a fault can cross."""

from pydantic import ValidationError


class TurnsmithError(Exception):
    """Root of everything that Turnsmith raises on purpose."""


class UsageError(TurnsmithError):
    """Bad input: the message says in one sentence what is wrong, where, and the remedy."""


class SandboxError(TurnsmithError):
    """The sandbox could not start, died, or stopped answering."""


class EngineError(TurnsmithError):
    """The engine could not answer a request."""


class GradingError(TurnsmithError):
    """The grader could not reach a verdict."""


class PluginFailed(GradingError):
    """The grader's pytest plugin cannot report the tests of a task, on the clean tree or with the gold patch."""


class TrainingError(TurnsmithError):
    """A loss or a gradient is not finite, or engine and trainer disagree: the weights are untouched, the run stops."""


class ProvenanceError(TrainingError):
    """A batch holds something else than what was sampled: the weights are untouched, the run stops."""


class NoSignal(TurnsmithError):
    """No group carried signal in several iterations in a row: to go on would be to wait."""


class OutOfBudget(TurnsmithError):
    """What a run may cost is spent; nothing is lost, and with more it goes on."""


class InfrastructureStorm(TurnsmithError):
    """The share of infrastructure failures in one iteration passed its bound."""


def first_fault(error: ValidationError) -> str:
    """The first thing that was found wrong, in words for people."""
    return error.errors()[0]["msg"].removeprefix("Value error, ")
