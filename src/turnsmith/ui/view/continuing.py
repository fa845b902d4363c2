"""Request of a page to continue an episode, and the answer with the new verdict."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turnsmith.errors import UsageError, first_fault
from turnsmith.runs.folder import RunFolder
from turnsmith.types import Trajectory
from turnsmith.ui.view.opened import OpenedRun


class ContinuationOrder(BaseModel):
    """Body of a request to continue an episode."""

    model_config = ConfigDict(extra="forbid")

    journal: str
    start: int = Field(ge=0)
    """Byte offset of the trajectory in the journal."""
    turn: int = Field(ge=1)
    """Number of the turn that is replaced, counted from 1."""
    messages: list[str] = Field(max_length=100)
    """Messages instead of that turn, each with one command."""
    by_policy: bool = False
    """True if the policy continues after the messages."""


Continue = Callable[[RunFolder, Trajectory, ContinuationOrder], Trajectory]
"""Function that continues an episode in a new sandbox, and grades it. Raises TurnsmithError."""


def continue_trajectory(run: OpenedRun, body: bytes, continue_run: Continue) -> dict[str, Any]:
    """Continue an episode as the body of a request says; return the new trajectory. Raises TurnsmithError."""
    try:
        order = ContinuationOrder.model_validate_json(body)
    except ValidationError as error:
        raise UsageError(f"the request cannot be read: {first_fault(error)}") from None
    trajectory = run.read(order.journal, order.start).trajectory
    return continue_run(run.folder, trajectory, order).model_dump(mode="json")
