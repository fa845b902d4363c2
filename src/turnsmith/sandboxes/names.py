"""Table of the built-in sandbox kinds."""

from turnsmith.config import SandboxConfig
from turnsmith.config.names import NameTable
from turnsmith.errors import UsageError
from turnsmith.sandboxes.base import SandboxProvider

SANDBOXES = NameTable(
    "sandbox kind",
    {
        "local": "turnsmith.sandboxes.local:LocalProvider",
        "podman": "turnsmith.sandboxes.containers.provider:ContainerProvider",
        "subprocess": "turnsmith.sandboxes.subprocesses:SubprocessProvider",
    },
)
"""Name of each built-in sandbox kind → import path of its provider class."""


def load_provider(config: SandboxConfig) -> type[SandboxProvider]:
    """Import the provider class of `config.kind`, starting nothing. Raises UsageError if the settings do not fit that kind."""
    provider: type[SandboxProvider] = SANDBOXES.load(config.kind)
    if not (isinstance(provider, type) and hasattr(provider, "takes_images") and hasattr(provider, "start")):
        raise UsageError(
            f"sandbox kind {config.kind} is no provider of sandboxes: give a turnsmith.sandboxes.base.SandboxProvider"
        )
    if not provider.takes_images and (config.image or config.container_engine):
        raise UsageError(
            "sandbox.image and sandbox.container_engine are for sandboxes made from images: "
            f"give --sandbox podman instead of {config.kind}"
        )
    return provider
