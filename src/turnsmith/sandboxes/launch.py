"""Starting what runs on the sandbox's side, and the limits that it is given."""

import resource
import subprocess
import sys
from pathlib import Path

import turnsmith
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.inside.toolbox import INTERPRETER, interpreter_arguments
from turnsmith.sandboxes.inside.wire import Limits

END_TIMEOUT_S = 10.0
"""How long a process may take to end once its socket is closed."""


def to_limits(config: SandboxConfig) -> Limits:
    return Limits(
        memory_bytes=config.memory_mb << 20,
        num_processes=config.max_processes,
        disk_bytes=config.disk_mb << 20,
        output_bytes=config.max_output_bytes,
    )


def refuse_image(spec: SandboxSpec) -> None:
    """For providers whose sandboxes show this machine's own system. Raises UsageError, also where only an image has the tree."""
    if spec.image:
        raise UsageError(f"a task needs the image {spec.image}: choose --sandbox.kind podman")
    if not spec.layers:
        raise UsageError("a task without layers needs an image that holds its tree: choose --sandbox.kind podman")


def allow_open_files() -> None:
    """Let us open as many files as we may: the kernel counts the descriptors that are on their way against the sender."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run_inside(module: str, stdin: int, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a module of `inside` in a session of its own, with the variables that every interpreter in a sandbox has."""
    python = sys._base_executable  # type: ignore[attr-defined]
    return subprocess.Popen(
        [*interpreter_arguments(python, module), *arguments],
        stdin=stdin,
        env=INTERPRETER,
        cwd=Path(turnsmith.__file__).parent.parent,
        start_new_session=True,
    )


def wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process whose socket was closed."""
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
