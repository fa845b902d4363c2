"""Cleanup after the death of the supervisor or of the host process."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from support.machine.host_processes import is_alive, wait_for, wait_until
from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError, UsageError
from turnsmith.runs.temporary import temporary_folder
from turnsmith.sandboxes import launch, make_provider

HOST = """
import asyncio, sys
from pathlib import Path
from turnsmith.config import SandboxConfig
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxSpec

async def main():
    provider = make_provider(SandboxConfig.model_validate_json(sys.argv[1]))
    sandboxes = [await provider.start(SandboxSpec((Path(sys.argv[2]),))) for _ in "12"]
    for sandbox in sandboxes:
        await sandbox.exec(f"echo x > new; setsid {sys.argv[3]} > /dev/null 2>&1 &", timeout_s=30)
    print("ready", getattr(provider, "owner", ""), flush=True)
    await sandboxes[1].exec(sys.argv[3], timeout_s=900)

asyncio.run(main())
"""


def find_processes(command):
    """Process ids on this machine of that command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        except OSError:
            continue
        if arguments == command.encode().split():
            found.append(int(folder.name))
    return found


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def list_containers(config, owner):
    if config.kind != "podman":
        return []
    listed = subprocess.run(
        [config.container_engine, "ps", "--all", "--quiet", f"--filter=label=turnsmith={owner}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()


async def test_the_death_of_a_supervisor_is_a_sandbox_error_and_spares_the_others(provider, spec):
    sandbox, other = await asyncio.gather(provider.start(spec), provider.start(spec))
    command = f"sleep {7_000_000 + os.getpid()}"
    await sandbox.exec(f"setsid {command} > /dev/null 2>&1 &", timeout_s=30)
    wait_until(lambda: len(find_processes(command)) == 1)
    (orphan,) = find_processes(command)
    os.kill(parent_of(orphan), signal.SIGKILL)
    for use in (sandbox.exec("true", timeout_s=30), sandbox.read("README")):
        with pytest.raises(SandboxError):
            await use
    await sandbox.stop()
    assert (await other.exec("cat README", timeout_s=30)).output == b"hello\n"
    again = await provider.start(spec)
    assert (await again.exec("cat README", timeout_s=30)).output == b"hello\n"
    if provider.isolation == "none":
        os.kill(orphan, signal.SIGKILL)  # only the supervisor could end it
    wait_until(lambda: not find_processes(command))


def test_a_host_process_that_is_killed_leaves_nothing_that_the_next_start_does_not_remove(
    kind, config, layers, tmp_path, monkeypatch
):
    (temporary := tmp_path / "temporary").mkdir()
    command = f"sleep {8_000_000 + os.getpid()}"
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, config.model_dump_json(), str(layers[0]), command],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        ready, _, owner = host.stdout.readline().strip().partition(" ")
        assert ready == "ready"
        wait_until(lambda: len(find_processes(command)) == 3)
        assert len(list_containers(config, owner)) == (2 if kind == "podman" else 0)
    finally:
        host.kill()
        host.communicate()
    wait_until(lambda: not find_processes(command))
    wait_until(lambda: not list_containers(config, owner))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with temporary_folder("next") as folder:
        assert list(temporary.glob("*/*")) == [folder]


@pytest.fixture
async def local():
    try:
        provider = make_provider(SandboxConfig(kind="local"))
    except UsageError as error:
        pytest.skip(str(error))
    yield provider
    await provider.close()


SPAWNING = """
import sys
from turnsmith.config import SandboxConfig
from turnsmith.sandboxes import make_provider

provider = make_provider(SandboxConfig(kind="local"))
print(provider.spawner_pid, flush=True)
sys.stdin.read()
"""


def is_waiting(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


async def test_a_spawner_that_does_not_listen_dies_with_its_host(local):
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SPAWNING], stdin=pipe, stdout=pipe, text=True) as host:
        spawner = int(host.stdout.readline())
        wait_until(lambda: is_waiting(spawner))
        os.kill(spawner, signal.SIGSTOP)
        host.kill()
    wait_until(lambda: not is_alive(spawner))


async def test_a_spawner_that_does_not_listen_is_ended_by_close(local, monkeypatch):
    monkeypatch.setattr(launch, "END_TIMEOUT_S", 0.1)
    os.kill(spawner := local.spawner_pid, signal.SIGSTOP)
    await local.close()
    assert not is_alive(spawner)


async def test_killing_the_spawner_ends_its_sandboxes_and_the_next_start_replaces_it(local, spec):
    command = f"sleep {9_000_000 + os.getpid()}"
    for _ in range(2):
        sandbox = await local.start(spec)
        running = asyncio.create_task(sandbox.exec(command, timeout_s=60))
        await wait_for(lambda: find_processes(command))
        os.kill(local.spawner_pid, signal.SIGKILL)
        with pytest.raises(SandboxError, match="died"):
            await running
        await sandbox.stop()
    sandbox = await local.start(spec)
    assert (await sandbox.exec("echo alive", timeout_s=20)).output == b"alive\n"


async def test_closed_provider_starts_no_sandbox(local, spec):
    await local.close()
    with pytest.raises(SandboxError, match="could not start"):
        await local.start(spec)


async def test_concurrent_starts_after_a_death_share_one_new_spawner(local, spec):
    os.kill(spawner := local.spawner_pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(spawner))
    sandboxes = await asyncio.gather(*(local.start(spec) for _ in range(4)))
    results = await asyncio.gather(*(sandbox.exec("echo alive", timeout_s=20) for sandbox in sandboxes))
    assert {result.output for result in results} == {b"alive\n"}
