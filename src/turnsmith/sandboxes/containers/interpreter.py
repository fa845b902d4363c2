"""Python interpreter and supervisor code that are mounted read-only into containers.

The interpreter comes with its own loader and shared libraries, so it also runs in images with another C library.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from turnsmith.sandboxes import inside
from turnsmith.sandboxes.inside.container import PYTHON
from turnsmith.sandboxes.runtime import copy_distribution, open_to_all, prepare_folder, required_distributions

NATIVE = "native"
"""Name of the folder with the loader, the interpreter and the shared libraries that they need."""
_LEFT_OUT = (
    "site-packages dist-packages test tests idlelib tkinter turtledemo ensurepip lib2to3 config-* _tkinter* _test* *.a"
)
"""Patterns of files in Python's standard library that are not copied into containers."""

_LAUNCHER = '#!/bin/sh\nexec {} "$@"\n'


def to_command(*arguments: str) -> list[str]:
    """Build the command that runs the mounted interpreter in a container, without a shell."""
    native = f"{PYTHON}/{NATIVE}"
    options = ["--library-path", native, "--argv0", f"{PYTHON}/bin/python"]
    return [f"{native}/loader", *options, f"{native}/python", *arguments]


def prepare_interpreter() -> Path:
    """Return the cached folder of the interpreter for containers, built on first use for each Python and pytest version."""
    python = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    status = python.stat()
    versions = [f"{found.name}=={found.version}" for found in required_distributions("pytest")]
    seen = [_LAUNCHER, str(python), str(status.st_mtime_ns), str(status.st_size), sys.version, *versions]
    key = hashlib.sha256("\0".join(seen).encode()).hexdigest()[:16]
    return prepare_folder(f"interpreter-{key}", lambda folder: _fill_interpreter(folder, python))


def write_toolbox(folder: Path, shell_setup: str) -> None:
    """Write the files that are mounted into one container: the supervisor's code, and the script that bash reads at its start."""
    code = Path(inside.__file__).parent
    ignored = shutil.ignore_patterns("local", "__pycache__")
    shutil.copytree(code, folder / "turnsmith" / "sandboxes" / "inside", ignore=ignored)
    (folder / "shell.sh").write_text(shell_setup)
    open_to_all(folder)


def _fill_interpreter(folder: Path, python: Path) -> None:
    library = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    ignored = shutil.ignore_patterns(*_LEFT_OUT.split())
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=ignored, ignore_dangling_symlinks=True)
    for distribution in required_distributions("pytest"):
        copy_distribution(distribution, library / "site-packages")
    _copy_native(folder / NATIVE, python, sorted((library / "lib-dynload").glob("*.so")))
    (folder / "bin").mkdir()
    for name, command in (("python", to_command()), ("python3", to_command()), ("pytest", to_command("-m", "pytest"))):
        (folder / "bin" / name).write_text(_LAUNCHER.format(shlex.join(command)))
        (folder / "bin" / name).chmod(0o755)
    open_to_all(folder)


def _copy_native(folder: Path, python: Path, modules: list[Path]) -> None:
    folder.mkdir()
    loader = find_loader(python)
    for source, name in ((python, "python"), (loader, "loader")):
        shutil.copyfile(source, folder / name)
        (folder / name).chmod(0o755)
    for library in {found for file in (python, *modules) for found in find_libraries(loader, file)}:
        shutil.copyfile(library, folder / library.name)


def find_loader(program: Path) -> Path:
    """Return the path of the dynamic loader that an executable names. Raises OSError if it names none."""
    with program.open("rb") as file:
        head = file.read(1 << 16)
    found = re.search(rb"/[\w./-]*/ld[-\w.]*\.so[.\d]*(?=\0)", head)
    if not found:
        raise OSError(f"{program} names no dynamic loader")
    return Path(os.fsdecode(found[0]))


def find_libraries(loader: Path, file: Path) -> list[Path]:
    """List the shared libraries that the dynamic loader finds for a program or an extension module."""
    listed = subprocess.run([loader, "--list", file], capture_output=True, text=True)
    return [Path(path) for path in re.findall(r"=> (/\S+) \(0x", listed.stdout)]
