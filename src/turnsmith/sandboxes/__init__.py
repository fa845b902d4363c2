"""Sandboxes: start, run, read, write, diff, snapshot, restore, fork, stop. One provider per kind; `make_provider` picks it.

What runs inside imports this package without third-party packages, so nothing is imported here before it is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnsmith.config import SandboxConfig
    from turnsmith.sandboxes.base import SandboxProvider


def make_provider(config: SandboxConfig) -> SandboxProvider:
    """A provider, ready to start sandboxes, some ahead of need if asked. Raises UsageError where this machine forbids it."""
    provider = _make_provider(config)
    if not config.num_ahead:
        return provider
    from turnsmith.sandboxes.pool import Pool

    return Pool(provider, config.num_ahead)


def _make_provider(config: SandboxConfig) -> SandboxProvider:
    """The provider of `config.kind`."""
    if config.kind == "local":
        from turnsmith.sandboxes.local import LocalProvider

        return LocalProvider(config)
    if config.kind in ("podman", "docker"):
        from turnsmith.sandboxes.containers import ContainerProvider

        return ContainerProvider(config)
    from turnsmith.sandboxes.bare import BareProvider

    return BareProvider(config)
