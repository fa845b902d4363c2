"""Real attempts to escape from a local sandbox by code that an agent could run.

Each test checks the host and sibling sandboxes. Where possible, a control runs the same attempt where it must succeed.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from support.machine.host_processes import ancestor_in_sandbox, processes_named, wait_until
from turnsmith.sandboxes.inside import privileges

IS_ROOT = os.geteuid() == 0
CALLS = {**privileges._UNKNOWN, **privileges._FORBIDDEN, **privileges._OF_A_PROCESS}
NUMBERS = {name: numbers[os.uname().machine != "x86_64"] for name, numbers in CALLS.items()}
PREAMBLE = """
import contextlib, ctypes, errno, fcntl, mmap, os, resource, select, signal, socket, stat, struct, sys, time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(name, *arguments):
    '''A system call; its result, or -1.'''
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return libc.syscall(ctypes.c_long(NUMBERS[name]), *values)


def works(attempt):
    '''Did it end without an error?'''
    try:
        return attempt() != -1
    except (OSError, ValueError):
        return False


def tell(**attempts):
    '''Print the names of those that work.'''
    print(*sorted(name for name, attempt in attempts.items() if works(attempt)), flush=True)


def stay():
    '''Leave a child behind that holds all that is open.'''
    sys.stdout.flush()
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
"""


def script(code, values):
    named = {"NUMBERS": NUMBERS, **values}
    return PREAMBLE + "".join(f"{name} = {value!r}\n" for name, value in named.items()) + textwrap.dedent(code)


def run_outside(code, *wrapper, **values):
    """Run the code as a process of this machine and return its output."""
    command = [*wrapper, sys.executable, "-"]
    finished = subprocess.run(
        command, input=script(code, values), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return finished.stdout.strip()


def attempt_in(sandbox):
    """Run code in a sandbox and return its output."""

    async def attempt(code, timeout_s=30.0, **values):
        result = await sandbox.exec("python -", stdin=script(code, values).encode(), timeout_s=timeout_s)
        assert not result.timed_out
        return result.output.decode(errors="replace").strip()

    return attempt


@pytest.fixture
def kind():
    return "local"


@pytest.fixture
def inside(sandbox):
    return attempt_in(sandbox)


@pytest.fixture
def inside_of():
    """Run code in a given sandbox and return its output."""
    return attempt_in


@pytest.fixture
def outside():
    """Return a function that runs the same code as a process of this machine, with an optional wrapper."""
    return run_outside


@pytest.fixture
def as_root_outside():
    """Run the code as root of new namespaces, which any user can create."""
    wrapper = ("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--uts", "--ipc")
    return lambda code, **values: run_outside(code, *wrapper, **values)


@pytest.fixture
async def beside(provider, spec):
    """Run code in a second sandbox of the same provider."""
    return attempt_in(await provider.start(spec))


@pytest.fixture
def open_folder():
    """Return a folder on the host that everyone may enter and write to."""
    folder = Path(tempfile.mkdtemp(prefix="escape-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def victim():
    """Start a process of the host."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
async def process_one(sandbox):
    """Return the supervisor's process id on the host."""
    mark = f"{os.getpid()}{time.monotonic_ns() % 10**6}"
    running = asyncio.create_task(sandbox.exec(f"sleep {mark}", timeout_s=60))
    await asyncio.to_thread(wait_until, lambda: processes_named(f"sleep {mark}"))
    yield ancestor_in_sandbox(int(processes_named(f"sleep {mark}")[0]))
    running.cancel()
