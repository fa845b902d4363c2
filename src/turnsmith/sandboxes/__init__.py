"""Isolated systems in which agents and tests run commands and edit a working tree.

`make_provider` opens one provider by kind: `local`, `containers` or `subprocesses`. Other parts import it and the interfaces
in `base`. Code inside a sandbox imports this package without third-party packages, so nothing is imported here before it is
needed. The package knows neither agents nor grading.
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
