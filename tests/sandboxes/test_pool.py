"""Sandboxes ahead of those who ask: the same sandboxes, sooner, and never more than allowed."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.pool import Pool


class Counted:
    """A provider that says what was asked of it."""

    def __init__(self, provider):
        self.isolation, self.provider, self.started = provider.isolation, provider, []

    async def start(self, spec):
        sandbox = await self.provider.start(spec)
        self.started.append((spec, sandbox))
        return sandbox

    async def start_from(self, snapshot):
        return await self.provider.start_from(snapshot)

    async def close(self):
        await self.provider.close()

    def num_living(self):
        return sum(not sandbox.is_stopped for _, sandbox in self.started)


@pytest.fixture
def counted(provider):
    return Counted(provider)


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


async def test_who_asks_twice_finds_the_third_ready(counted, spec):
    pool = Pool(counted, num_ahead=2)
    await pool.start(spec)
    await asyncio.sleep(0.05)
    assert len(counted.started) == 1
    await pool.start(spec)
    await until(lambda: len(counted.started) == 3)
    third = await pool.start(spec)
    assert third is counted.started[2][1]
    assert (await third.exec("cat new.txt", timeout_s=20)).output == b"from the second layer\n"
    await pool.close()
    assert counted.num_living() == 0


async def test_nobody_gets_a_sandbox_of_another_kind_or_one_that_was_used(counted, spec):
    pool, other = Pool(counted, num_ahead=4), replace(spec, layers=spec.layers[:1])
    seen = []
    for asked in (spec, other, spec, other, other, spec, spec, other):
        sandbox = await pool.start(asked)
        seen.append(sandbox)
        content = (await sandbox.exec("cat pkg/a.py; echo y > pkg/a.py", timeout_s=20)).output
        assert content == (b"x = 3\n" if asked is spec else b"x = 1\n")
    assert len(set(seen)) == len(seen)
    await pool.close()


async def test_no_more_wait_than_allowed(counted, spec):
    pool = Pool(counted, num_ahead=1)
    specs = [replace(spec, workdir=f"/work{number}") for number in range(4)]
    for asked in [*specs, *specs]:
        await (await pool.start(asked)).stop()
    await until(lambda: counted.num_living() <= 1 and not pool._leaving)
    await pool.close()
    assert counted.num_living() == 0


async def test_a_pool_of_none_starts_what_is_asked_for(counted, spec):
    pool = Pool(counted, num_ahead=0)
    for _ in range(4):
        await (await pool.start(spec)).stop()
    await until(lambda: counted.num_living() == 0)
    await pool.close()


async def test_what_could_not_start_ahead_is_started_when_it_is_asked_for(counted, spec, tmp_path):
    pool, moved = Pool(counted, num_ahead=1), tmp_path / "moved"
    await pool.start(spec)
    await pool.start(spec)
    await pool.start(spec)
    await until(lambda: len(counted.started) == 4)
    shutil.move(spec.layers[0], moved)
    await pool.start(spec)  # the fourth; the fifth cannot start
    await asyncio.sleep(0.3)
    with pytest.raises(SandboxError):
        await pool.start(spec)
    shutil.move(moved, spec.layers[0])
    assert (await (await pool.start(spec)).exec("cat README", timeout_s=20)).output == b"hello\n"
    await pool.close()


async def test_closing_leaves_no_descriptor(counted, spec):
    pool = Pool(counted, num_ahead=3)
    used = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        await pool.start(spec)
    await pool.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= used


async def test_snapshots_pass_through(counted, spec):
    pool = Pool(counted, num_ahead=1)
    first = await pool.start(spec)
    await first.write("file", b"kept")
    snapshot = await first.snapshot()
    assert await (await pool.start_from(snapshot)).read("file") == b"kept"
    snapshot.drop()
    await pool.close()


async def test_a_setting_makes_a_pool(layers):
    provider = make_provider(SandboxConfig(kind="subprocess", num_ahead=1))
    assert isinstance(provider, Pool)
    for _ in range(3):
        sandbox = await provider.start(SandboxSpec(layers))
        assert (await sandbox.exec("cat README", timeout_s=20)).output == b"hello\n"
    await provider.close()
