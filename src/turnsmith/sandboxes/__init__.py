"""Sandboxes: start, run commands, read and write files, diff, stop. `make_provider` opens the configured kind.

Processes inside a sandbox import this package without third-party packages, so other modules are imported on use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnsmith.config import SandboxConfig
    from turnsmith.sandboxes.base import SandboxProvider


def make_provider(config: SandboxConfig) -> SandboxProvider:
    """Open a provider of `config.kind`. Raises UsageError if this machine does not support it."""
    if config.kind == "local":
        from turnsmith.sandboxes.local import LocalProvider

        return LocalProvider(config)
    if config.kind == "podman":
        from turnsmith.sandboxes.containers.provider import ContainerProvider

        return ContainerProvider(config)
    from turnsmith.sandboxes.subprocesses import SubprocessProvider

    return SubprocessProvider(config)
