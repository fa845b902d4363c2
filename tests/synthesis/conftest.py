"""A sandbox that is a plain directory: enough to run suites where nobody is hostile."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from turnsmith.types import ExecResult


class PlainSandbox:
    isolation = "none"

    def __init__(self, spec):
        self.folder = Path(tempfile.mkdtemp())
        for layer in spec.layers:
            shutil.copytree(layer, self.folder, dirs_exist_ok=True, symlinks=True)

    async def exec(self, command, *, timeout_s, cwd=None, stdin=b"", env=None):
        started = time.perf_counter()
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        process = await asyncio.create_subprocess_shell(
            command,
            cwd=self.folder,
            env={"PATH": path, **(env or {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(stdin), timeout_s)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
            return ExecResult(137, b"", timeout_s, timed_out=True)
        return ExecResult(process.returncode, output, time.perf_counter() - started)

    async def write(self, path, content):
        Path(path).write_bytes(content)

    async def stop(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class PlainProvider:
    isolation = "none"

    async def start(self, spec):
        return PlainSandbox(spec)

    async def close(self):
        pass


@pytest.fixture
def provider():
    return PlainProvider()
