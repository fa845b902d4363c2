"""Recipes of Python environments: a Python version and install commands. Equal recipes share one environment."""

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
"""Environment variables that give build tools the version of a project."""
COMPILED_SINCE = Version("3.7")
"""Oldest version of Python for which uv compiles bytecode."""


@dataclass(frozen=True)
class Recipe:
    """Python version of an environment, and the install commands to run in the working tree, in order."""

    python: str
    """Full version of the Python interpreter, for example `3.9.18`."""
    commands: tuple[str, ...]
    """Bash commands that install packages; `python` in a command is the new environment's."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Path → digest, for each file that the commands read; other content produces another environment."""
    version: str = "0"
    """Version of the project, for build tools that would read it from git history. Not part of the key."""

    @property
    def key(self) -> str:
        """Return the name of the recipe's environment, a hash of the recipe."""
        parts = (self.python, self.commands, sorted(self.digests.items()))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment variables of the install commands.

        They make uv compile bytecode, since sandboxes cannot write it.
        """
        compiles = {"UV_COMPILE_BYTECODE": "1"} if Version(self.python) >= COMPILED_SINCE else {}
        return {**dict.fromkeys(VERSIONS, self.version), **compiles}
