"""Isolated systems in which agents and tests run commands and edit a working tree.

`names` lists the kinds of sandboxes. `make_provider` opens the provider that starts sandboxes of one kind. Other packages import
`make_provider`, `names` and the interfaces in `base`. Processes inside a sandbox also import this module, but have no
third-party packages. So it imports other modules only inside functions. The package knows neither agents nor grading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnsmith.config import SandboxConfig
    from turnsmith.sandboxes.base import SandboxProvider


def make_provider(config: SandboxConfig) -> SandboxProvider:
    """Open a sandbox provider of `config.kind`. Raises UsageError if this machine does not support that kind."""
    from turnsmith.sandboxes.names import SANDBOXES, load_provider

    load_provider(config)  # raises UsageError if the settings do not fit the kind
    provider: SandboxProvider = SANDBOXES.bind(config.kind, config.options, "sandbox.options")(config)
    return provider
