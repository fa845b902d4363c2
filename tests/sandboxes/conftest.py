"""A small working tree in two layers, and each kind of provider over it."""

import pytest

from podman_engine import IMAGE, STATIC_IMAGE, find_podman
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxSpec


def provide(kind, **settings):
    """A provider, or a skip that says why this machine has none."""
    try:
        return make_provider(configure(kind, **settings))
    except UsageError as error:
        pytest.skip(str(error))


def configure(kind, **settings):
    """Settings of a provider, with what the tests of containers need besides, or a skip that says why there is none."""
    if kind == "podman":
        settings = {"image": IMAGE, "container_engine": find_podman(), **settings}
    return SandboxConfig(kind=kind, **settings)


@pytest.fixture
def layers(tmp_path):
    """A base with a package, and a second layer that changes one file and adds one."""
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    for folder in (lower / "pkg" / "sub", upper / "pkg"):
        folder.mkdir(parents=True)
    (lower / "README").write_text("hello\n")
    (lower / "pkg" / "a.py").write_text("x = 1\n")
    (lower / "pkg" / "b.py").write_text("".join(f"line {n}\n" for n in range(50)))
    (lower / "pkg" / "sub" / "c.py").write_text("y = 2\n")
    (lower / "run.sh").write_text("echo hi\n")
    (lower / "logo.bin").write_bytes(bytes(range(256)))
    (lower / "link").symlink_to("pkg/a.py")
    (upper / "pkg" / "a.py").write_text("x = 3\n")
    (upper / "new.txt").write_text("from the second layer\n")
    return lower, upper


@pytest.fixture
def spec(layers):
    return SandboxSpec(layers)


@pytest.fixture(params=["local", "subprocess", "podman"])
def kind(request):
    return request.param


@pytest.fixture
def static_image():
    return STATIC_IMAGE


@pytest.fixture
def config(kind):
    return configure(kind, memory_mb=256, max_processes=64, disk_mb=96, max_output_bytes=1_000_000)


@pytest.fixture
async def provider(config):
    try:
        provider = make_provider(config)
    except UsageError as error:
        pytest.skip(str(error))
    yield provider
    await provider.close()


@pytest.fixture
async def sandbox(provider, spec):
    return await provider.start(spec)


@pytest.fixture
def run(sandbox):
    """Run a command in the sandbox; returns its result."""

    async def run(command, timeout_s=20.0, **options):
        return await sandbox.exec(command, timeout_s=timeout_s, **options)

    return run
