"""How an environment is made; what is made alike is shared."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from packaging.version import Version

VERSIONS = (
    "SETUPTOOLS_SCM_PRETEND_VERSION",
    "PBR_VERSION",
    "PDM_BUILD_SCM_VERSION",
    "POETRY_DYNAMIC_VERSIONING_BYPASS",
)
"""Variables by which builds are told a version."""
COMPILED_SINCE = Version("3.7")
"""Whose bytecode uv can write."""


@dataclass(frozen=True)
class Recipe:
    """A Python, and commands that install into it, run in the working tree one after the other."""

    python: str
    """Version, e.g. `3.9.18`."""
    commands: tuple[str, ...]
    """By bash; `python` is the new environment's."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of what the commands read in the tree, by path: where one changes, so may what is installed."""
    version: str = "0"
    """Of the project, for builds that ask a git history for it, which a task has not. No part of the key."""

    @property
    def key(self) -> str:
        """Names the environment."""
        parts = (self.python, self.commands, sorted(self.digests.items()))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]

    @property
    def variables(self) -> dict[str, str]:
        """A suite that starts with bytecode starts twice as fast; an environment cannot be written to later."""
        compiles = {"UV_COMPILE_BYTECODE": "1"} if Version(self.python) >= COMPILED_SINCE else {}
        return {**dict.fromkeys(VERSIONS, self.version), **compiles}
