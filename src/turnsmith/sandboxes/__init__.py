"""Sandboxes: start, run, read, write, diff, stop. One provider per kind; `make_provider` picks it.

What runs inside imports this package without third-party packages, so nothing is imported here before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnsmith.config import SandboxConfig
    from turnsmith.sandboxes.base import SandboxProvider


def make_provider(config: SandboxConfig) -> SandboxProvider:
    """A provider of `config.kind`, ready to start sandboxes. Raises UsageError where this machine forbids it."""
    if config.kind == "local":
        from turnsmith.sandboxes.local import LocalProvider

        return LocalProvider(config)
    if config.kind == "podman":
        from turnsmith.sandboxes.containers.provider import ContainerProvider

        return ContainerProvider(config)
    from turnsmith.sandboxes.subprocesses import SubprocessProvider

    return SubprocessProvider(config)
