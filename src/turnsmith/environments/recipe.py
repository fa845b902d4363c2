"""Recipes of environments. Equal recipes share one environment."""

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
"""Variables that set a project's version in build tools."""
COMPILED_SINCE = Version("3.7")
"""Oldest Python whose bytecode uv compiles."""


@dataclass(frozen=True)
class Recipe:
    """Python version and installation commands, run in the working tree in order."""

    python: str
    """Version, for example `3.9.18`."""
    commands: tuple[str, ...]
    """Bash commands; `python` is the new environment's."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Path → digest of the files read by the commands; changes produce a new environment."""
    version: str = "0"
    """Project version, for builds that would read it from git history. Not part of the key."""

    @property
    def key(self) -> str:
        """Return the name of the environment, a hash."""
        parts = (self.python, self.commands, sorted(self.digests.items()))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of the commands. Bytecode is compiled now, since environments are read-only later."""
        compiles = {"UV_COMPILE_BYTECODE": "1"} if Version(self.python) >= COMPILED_SINCE else {}
        return {**dict.fromkeys(VERSIONS, self.version), **compiles}
