"""Small working tree in two layers, and a provider of each kind."""

import asyncio

import pytest

from support.machine.podman_engine import IMAGE, STATIC_IMAGE, find_podman
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.names import SANDBOXES, load_provider


def provide(kind, **settings):
    """Return a provider, or skip with the reason why it is unavailable."""
    try:
        return make_provider(configure(kind, **settings))
    except UsageError as error:
        pytest.skip(str(error))


def configure(kind, **settings):
    """Return the settings of a provider for a kind. Skips with a reason if the kind is not available."""
    if needs_images(kind):
        settings = {"image": IMAGE, "container_engine": find_podman(), **settings}
    return SandboxConfig(kind=kind, **settings)


@pytest.fixture
def layers(tmp_path):
    """Create a base layer with a package and a second layer that changes one file and adds one."""
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


def needs_images(kind):
    """Return True for kinds that use images, whose tests are slow."""
    return load_provider(SandboxConfig(kind=kind)).takes_images


@pytest.fixture(params=[pytest.param(kind, marks=[pytest.mark.slow] * needs_images(kind)) for kind in SANDBOXES.paths])
def kind(request):
    return request.param


@pytest.fixture
def static_image():
    return STATIC_IMAGE


@pytest.fixture
def config(kind):
    return configure(kind, memory_mb=256, max_processes=64, disk_mb=96)


@pytest.fixture(scope="module")
def shared_providers():
    """Return local providers by configuration for one module, because a spawner starts slowly."""
    providers = {}
    yield providers
    for provider in providers.values():
        asyncio.run(provider.close())


@pytest.fixture
async def provider(kind, config, shared_providers):
    """Yield a provider and stop its sandboxes after the test."""
    provider = shared_providers.get(config.model_dump_json()) or provide_for(config)
    if kind == "local":
        shared_providers[config.model_dump_json()] = provider
    yield provider
    if kind == "local":
        await asyncio.gather(*(sandbox.stop() for sandbox in provider._sandboxes))
    else:
        await provider.close()


@pytest.fixture
async def own_provider(config):
    """Yield a provider that no other test uses, to be closed or killed."""
    provider = provide_for(config)
    yield provider
    await provider.close()


def provide_for(config):
    try:
        return make_provider(config)
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
async def sandbox(provider, spec):
    return await provider.start(spec)


@pytest.fixture
def run(sandbox):
    """Run a command in the sandbox and return its result."""

    async def run(command, timeout_s=60.0, **options):
        return await sandbox.exec(command, timeout_s=timeout_s, **options)

    return run


@pytest.fixture
def run_out_of_time(run):
    """Run a command that writes output and never ends, with a timeout just long enough. Return its result."""

    async def run_out_of_time(command, output):
        for timeout_s in (0.3, 3, 30):
            result = await run(command, timeout_s=timeout_s)
            if len(result.output) >= len(output):
                break
        assert result.timed_out and result.output == output
        return result

    return run_out_of_time
