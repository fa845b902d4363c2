"""Exception classes, one for each part of Turnsmith that can fail."""

from pydantic import ValidationError


class TurnsmithError(Exception):
    """Base class of all errors that Turnsmith raises on purpose."""


class UsageError(TurnsmithError):
    """Bad input: the message says in one sentence what is wrong, where, and the remedy."""


class SandboxError(TurnsmithError):
    """The sandbox could not start, died, or stopped answering."""


class EngineError(TurnsmithError):
    """The engine could not answer a request."""


class GradingError(TurnsmithError):
    """The grader could not reach a verdict."""


class PluginFailed(GradingError):
    """The grader's pytest plugin cannot report a task's tests, although no patch is applied, or only the gold patch."""


class TrainingError(TurnsmithError):
    """A loss or gradient is not finite, or log-probs of engine and trainer differ too much. The run stops."""


class RanksLost(TurnsmithError):
    """A process of a group of ranks died, hangs, or lost its connection; the group was killed and can be started anew."""


class ProvenanceError(TrainingError):
    """A batch differs from the tokens or log-probs that were sampled. The run stops, before the weights change."""


class NoSignal(TurnsmithError):
    """In several consecutive iterations, every group had equal rewards, so there was nothing to learn from."""


class OutOfBudget(TurnsmithError):
    """The budget of a run is spent; the run stops and can be resumed with a larger budget."""


class TooManyFailures(TurnsmithError):
    """Too many rollouts of one iteration were lost to faults of sandboxes or engine, so the run stops."""


def first_fault(error: ValidationError) -> str:
    """Return the message of the first validation error."""
    return error.errors()[0]["msg"].removeprefix("Value error, ")
