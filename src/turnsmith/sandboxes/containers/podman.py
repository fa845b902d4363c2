"""Podman, or what is called in its place, by its command line."""

import json
import subprocess
from collections.abc import Sequence

from turnsmith.errors import UsageError
from turnsmith.sandboxes.inside.local.identity import FREE_ID

NUM_IDS = 65_536
"""Users in the user namespace of a container."""
_IDS = f"0:{FREE_ID}:{NUM_IDS}"
LABEL = "turnsmith"
"""Every container of ours carries it; its value is the name of the provider that started it."""
FORGOTTEN_AFTER = "1h"
"""A container that does not run is started, or removed, long before."""
FIRST_ANSWER_S = 30.0
"""Seconds that an engine has to say that it is there; one that is busy with other containers takes a few."""


def find_users(program: str) -> list[str]:
    """Options that give a container users of its own, none where podman does so by itself.

    Raises UsageError where podman is not there or does not answer.
    """
    answer = ask(program, ["info", "--format", "{{json .}}"], patience_s=FIRST_ANSWER_S)
    try:
        is_rootless = json.loads(answer)["host"]["security"]["rootless"]
    except (ValueError, LookupError, TypeError):
        raise UsageError(
            f"{program} does not answer like podman: name one that does by --sandbox.container_engine"
        ) from None
    return [] if is_rootless else [f"--uidmap={_IDS}", f"--gidmap={_IDS}"]


def ask(
    program: str,
    arguments: Sequence[str],
    stdin: int = subprocess.DEVNULL,
    patience_s: float | None = None,
    fault: str = "",
) -> str:
    """What a command of the engine prints; `fault` says what it means where it fails. Raises UsageError."""
    try:
        finished = subprocess.run(
            [program, *arguments], stdin=stdin, capture_output=True, text=True, errors="replace", timeout=patience_s
        )
    except FileNotFoundError:
        raise UsageError(
            f"{program} is not installed on this machine: install it, name another by --sandbox.container_engine, "
            "or choose --sandbox.kind local"
        ) from None
    except OSError as error:
        raise UsageError(f"{program} cannot be started: {error}") from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{program} did not answer in {patience_s:g} s: see to it that `{program} {arguments[0]}` does, "
            "or choose --sandbox.kind local"
        ) from None
    if finished.returncode:
        *_, complaint = ["it did not say why", *finished.stderr.strip().splitlines()]
        fault = fault or f"{program} does not work on this machine"
        raise UsageError(f"{fault}: {complaint.removeprefix('Error: ')}")
    return finished.stdout


def remove_owned(program: str, owner: str) -> None:
    """End and remove the containers of one provider; those that are going already are no fault. Raises UsageError."""
    try:
        ask(program, ["rm", "--force", "--time=0", "--ignore", "--volumes", f"--filter=label={LABEL}={owner}"])
    except UsageError as error:
        if "already in progress" not in str(error):
            raise


def remove_forgotten(program: str) -> None:
    """Remove what a process left that was killed between making a container and starting it. Raises UsageError."""
    ask(program, ["container", "prune", "--force", f"--filter=label={LABEL}", f"--filter=until={FORGOTTEN_AFTER}"])
