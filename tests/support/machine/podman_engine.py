"""Podman for container tests."""

import subprocess
from functools import cache
from pathlib import Path

import pytest

LAUNCHER = Path(__file__).parents[3] / ".ci" / "podman"
IMAGE, STATIC_IMAGE = "localhost/turnsmith-test", "localhost/turnsmith-test-static"
"""Images of .ci/containers: Debian without Python, and static programs with musl."""


@cache
def find_podman():
    """Return a Podman that starts containers here, plain or by `.ci/podman`. Skips with a reason if there is none."""
    for engine in ("podman", str(LAUNCHER)):
        try:
            tried = subprocess.run(
                [engine, "run", "--rm", "--network=none", IMAGE, "true"], capture_output=True, text=True
            )
        except OSError as error:
            pytest.skip(f"no Podman: {error} (.ci/containers installs it)")
        if tried.returncode == 0:
            return engine
    pytest.skip(f"Podman starts no container here (.ci/containers makes its image): {tried.stderr.strip()[-200:]}")
