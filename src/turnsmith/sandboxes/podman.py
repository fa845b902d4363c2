"""Calls of podman, or of a compatible container engine, by its command line."""

import json
import shutil
import subprocess
from collections.abc import Sequence

from turnsmith.errors import UsageError
from turnsmith.io.programs import run_program
from turnsmith.sandboxes.inside.local.identity import FREE_ID

PODMAN = "podman"
"""Default container engine."""
NUM_IDS = 65_536
"""Number of user ids in a container's user namespace."""
_IDS = f"0:{FREE_ID}:{NUM_IDS}"
LABEL = "turnsmith"
"""Label of the containers that Turnsmith starts; the label's value identifies the sandbox provider."""
FORGOTTEN_AFTER = "1h"
"""Age after which a created but never started container is removed."""
FIRST_ANSWER_S = 30.0
"""Seconds to wait for the answer of `podman info`."""


def find_users(program: str) -> list[str]:
    """Return the podman options that map a container's users to unused ids; an empty list if podman is rootless.

    Raises UsageError if podman is missing or does not answer.
    """
    fault = f"{program} does not answer: check that `{program} info` works, or choose --sandbox.kind local"
    answer = ask(program, ["info", "--format", "{{json .}}"], patience_s=FIRST_ANSWER_S, fault=fault)
    try:
        is_rootless = json.loads(answer)["host"]["security"]["rootless"]
    except (ValueError, LookupError, TypeError):
        raise UsageError(
            f"{program} does not answer like podman: name a compatible engine by --sandbox.container_engine"
        ) from None
    return [] if is_rootless else [f"--uidmap={_IDS}", f"--gidmap={_IDS}"]


def ask(
    program: str,
    arguments: Sequence[str],
    stdin: int = subprocess.DEVNULL,
    patience_s: float | None = None,
    fault: str = "",
) -> str:
    """Run a podman command and return its stdout. Raises UsageError with a message that starts with `fault`."""
    if not shutil.which(program):
        raise UsageError(
            f"{program} is not installed on this machine: install it, name another by --sandbox.container_engine, "
            "or choose --sandbox.kind local"
        )
    fault = fault or f"{program} does not work on this machine"
    return run_program([program, *arguments], fault, stdin=stdin, timeout_s=patience_s).decode(errors="replace")


def remove_owned(program: str, owner: str) -> None:
    """Kill and remove all containers whose label names the sandbox provider `owner`. Raises UsageError."""
    try:
        ask(program, ["rm", "--force", "--time=0", "--ignore", "--volumes", f"--filter=label={LABEL}={owner}"])
    except UsageError as error:
        if "already in progress" not in str(error):
            raise


def remove_forgotten(program: str) -> None:
    """Remove containers that a killed process created but never started. Raises UsageError."""
    ask(program, ["container", "prune", "--force", f"--filter=label={LABEL}", f"--filter=until={FORGOTTEN_AFTER}"])
