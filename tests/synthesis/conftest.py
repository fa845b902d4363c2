import pytest

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes import make_provider


@pytest.fixture
async def provider():
    """Real sandboxes; bare ones where this machine forbids namespaces."""
    try:
        provider = make_provider(SandboxConfig())
    except UsageError:
        provider = make_provider(SandboxConfig(kind="subprocess"))
    yield provider
    await provider.close()
