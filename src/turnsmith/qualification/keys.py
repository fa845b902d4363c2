"""What a verdict rests on, as one key: where anything of it changes, the task is examined again."""

import hashlib
import os
import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

from turnsmith.config import SandboxConfig
from turnsmith.qualification.record import VERSION
from turnsmith.sandboxes.layers import walk_merged
from turnsmith.sandboxes.runtime import required_distributions
from turnsmith.types import Task

KIND_AND_EXECUTABLE = 0o170100


def make_key(task: Task, layers: Sequence[Path], sandbox: SandboxConfig) -> str:
    """Digest of the row, of its tree, of what the sandboxes run, hide and are made of, and of our own version."""
    runtime = f"{VERSION} {_name_runtime(tuple(sandbox.test_plugins))} {sandbox.kind}"
    parts = [runtime, sandbox.image, *sorted(sandbox.hidden), task.model_dump_json(), digest_tree(tuple(layers))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@lru_cache(maxsize=4096)
def digest_tree(layers: tuple[Path, ...]) -> str:
    """SHA-256 of the names, kinds, modes and contents of the stacked tree; read once by a process."""
    digest = hashlib.sha256()
    for path, place in sorted(walk_merged(layers)):
        mode = place.lstat().st_mode & KIND_AND_EXECUTABLE
        content = (
            os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes() if place.is_file() else b""
        )
        for part in (os.fsencode(path), b"%o" % mode, content):
            digest.update(b"%d:" % len(part) + part)
    return digest.hexdigest()


@cache
def _name_runtime(plugins: tuple[str, ...]) -> str:
    """Versions of Python, of pytest, of plugins that tasks may ask for, and of all that these require."""
    distributions = required_distributions("pytest", *plugins)
    versions = [f"{distribution.name}=={distribution.version}" for distribution in distributions]
    return " ".join([f"{sys.version_info.major}.{sys.version_info.minor}", *versions])
