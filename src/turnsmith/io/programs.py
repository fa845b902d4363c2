"""Runner of programs on this machine."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from turnsmith.errors import TurnsmithError, UsageError


def run_program(
    command: Sequence[str | Path],
    fault: str,
    *,
    stdin: bytes | int = subprocess.DEVNULL,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout_s: float | None = None,
    error: type[TurnsmithError] = UsageError,
) -> bytes:
    """Run a program and return its stdout. If it fails, raise `error` with the text `fault` and the last line of stderr."""
    written, source = (stdin, None) if isinstance(stdin, bytes) else (None, stdin)
    try:
        done = subprocess.run(
            command, input=written, stdin=source, capture_output=True, env=env, cwd=cwd, timeout=timeout_s
        )
    except OSError as refusal:
        raise error(f"{fault}: {refusal}") from None
    except subprocess.TimeoutExpired:
        raise error(f"{fault}: no answer in {timeout_s:g} s") from None
    if done.returncode:
        complaints = done.stderr.decode(errors="replace").strip().splitlines()
        raise error(f"{fault}: {complaints[-1] if complaints else f'exit code {done.returncode}'}")
    return done.stdout
