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
    """Import the provider class of `config.kind` without starting it. Raises UsageError if the settings do not fit that kind."""
    provider: type[SandboxProvider] = SANDBOXES.load(config.kind)
    missing = [name for name in ("takes_images", "takes_environments", "start", "close") if not hasattr(provider, name)]
    if missing or not isinstance(provider, type):
        raise UsageError(
            f"sandbox kind {config.kind} lacks {', '.join(missing) or 'a class'}: "
            "give a class that implements turnsmith.sandboxes.base.SandboxProvider"
        )
    if not provider.takes_images and (config.image or config.container_engine):
        raise UsageError(
            "sandbox.image and sandbox.container_engine apply only to containers: "
            f"give --sandbox podman instead of {config.kind}"
        )
    return provider
