"""One exception per boundary that a fault can cross.

TurnsmithError
├── UsageError           bad input from a person: one sentence, exit code 2
├── SandboxError         the sandbox itself failed (infrastructure), never what ran in it
├── EngineError          the engine could not sample
├── GradingError         the grader itself failed, never a failing test
├── TrainingError        a loss or a gradient is not finite, or the engine does not sample from the policy
├── NoSignal             groups have taught nothing for several iterations: the run stops
└── InfrastructureStorm  too many infrastructure failures in one iteration: the run stops
"""

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


class TrainingError(TurnsmithError):
    """A loss or a gradient is not finite, or engine and trainer disagree: the weights are untouched, the run stops."""


class NoSignal(TurnsmithError):
    """No group carried signal in several iterations in a row: to go on would be to wait."""


class InfrastructureStorm(TurnsmithError):
    """The share of infrastructure failures in one iteration passed its bound."""


def first_fault(error: ValidationError) -> str:
    """The first thing that was found wrong, in words for people."""
    return error.errors()[0]["msg"].removeprefix("Value error, ")
