"""The targets of the red team, and isolated sandboxes; without those none of it may be run."""

import asyncio
from contextlib import contextmanager

import pytest

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.redteam.targets import MAKERS
from turnsmith.sandboxes import make_provider


@contextmanager
def isolated_sandboxes():
    """A provider of namespaces; the test is skipped where this machine forbids them."""
    try:
        provider = make_provider(SandboxConfig(kind="local"))
    except UsageError as error:
        pytest.skip(str(error))
    try:
        yield provider
    finally:
        asyncio.run(provider.close())


def make_target(name, folder, provider):
    """A target; the test is skipped where the package index cannot be reached."""
    try:
        return asyncio.run(MAKERS[name](folder / name, provider))
    except UsageError as error:
        if "could not fetch" not in str(error):
            raise
        pytest.skip(f"the package index cannot be reached: {error}")
