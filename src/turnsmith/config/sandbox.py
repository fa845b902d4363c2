"""Section `[sandbox]`: isolation and resource limits."""

from typing import Annotated, Any

from pydantic import Field

from turnsmith.config.section import PathKey, Section
from turnsmith.types import Isolation


class SandboxConfig(Section):
    """Isolation and limits of the sandboxes for agents and tests."""

    kind: str = "local"
    """Backend: `local` (namespaces), `podman` (containers of images), `subprocess` (no isolation), or an import path."""
    options: Annotated[dict[str, Any], PathKey()] = {}
    """Options of the sandbox kind, if it has any (docs/extending.md)."""
    image: Annotated[str, PathKey()] = ""
    """Image for tasks that name none: a name, or the path of a root file system, as folder or tar file (podman only)."""
    container_engine: Annotated[str, PathKey()] = ""
    """Program to call instead of `podman`, such as a wrapper script (podman only)."""
    min_isolation: Isolation = Isolation.CONTAINER_ROOT
    """Weakest isolation level of sandboxes whose rollouts RFT and RL may use for training; evaluation accepts any."""
    memory_mb: int = Field(1_024, ge=32)
    """Memory limit of one sandbox, in MiB."""
    max_processes: int = Field(128, ge=4)
    """Maximum number of processes and threads in one sandbox."""
    disk_mb: int = Field(512, ge=1)
    """Maximum size of all files that a sandbox writes, in MiB."""
    hidden: list[str] = ["/usr/lib/python3/dist-packages", "/usr/share/python-wheels", "/usr/lib/google-cloud-sdk"]
    """Host folders that are empty inside `local` sandboxes, because they may contain fixed versions of the tasks' code."""
    test_plugins: list[str] = []
    """Installed pytest plugins that tests in sandboxes may use, such as `pytest-asyncio`. A task's command loads one by `-p`."""
