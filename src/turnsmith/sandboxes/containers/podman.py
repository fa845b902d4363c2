"""Podman, or what is called in its place, by its command line."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from turnsmith.errors import UsageError
from turnsmith.sandboxes.inside.local.identity import FREE_ID

NUM_IDS = 65_536
"""Users in the user namespace of a container."""
_IDS = f"0:{FREE_ID}:{NUM_IDS}"
_GONE = ("no such container", "already in progress")
"""How an engine says that somebody else has removed it, or is about to."""
FIRST_ANSWER_S = 30.0
"""Seconds that an engine has to say that it is there; one that is busy with other containers takes a few."""


@dataclass(frozen=True)
class Podman:
    """A podman that answers."""

    program: str
    user_namespace: tuple[str, ...]
    """Options that give a container users of its own; none where podman does so by itself."""


def find_podman(program: str) -> Podman:
    """Ask it what it is. Raises UsageError where it is not there or does not answer."""
    answer = ask(program, ["info", "--format", "{{json .}}"], patience_s=FIRST_ANSWER_S)
    with understanding(program):
        is_rootless = json.loads(answer)["host"]["security"]["rootless"]
        return Podman(program, () if is_rootless else (f"--uidmap={_IDS}", f"--gidmap={_IDS}"))


@contextmanager
def understanding(program: str) -> Iterator[None]:
    """Read an answer. Raises UsageError where it is not of the form that podman gives it."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise UsageError(
            f"{program} does not answer like podman: name one that does by --sandbox.container_engine"
        ) from None


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


def remove(program: str, *containers: str) -> None:
    """End containers and remove them; one that is gone already is no fault. Raises UsageError."""
    try:
        if containers:
            ask(program, ["rm", "--force", "--volumes", *containers])
    except UsageError as error:
        if not any(words in str(error).lower() for words in _GONE):
            raise
