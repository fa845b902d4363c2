"""Isolated sandboxes and the toy target. The scripts must not run without isolation."""

import asyncio

import pytest

from turnsmith.audit.redteam.scripts import CHECKOUT
from turnsmith.audit.redteam.targets import make_target
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes import make_provider


@pytest.fixture(scope="module")
def provider():
    """Provide sandboxes with namespaces. Skips if this machine forbids them."""
    try:
        provider = make_provider(SandboxConfig(kind="local"))
    except UsageError as error:
        pytest.skip(str(error))
    yield provider
    asyncio.run(provider.close())


@pytest.fixture(scope="module")
def toy(provider, tmp_path_factory):
    return asyncio.run(make_target("toy", tmp_path_factory.mktemp("toy") / "toy", provider, CHECKOUT))
