"""Recipes of Python environments and their builds: copy an interpreter, run the commands with network access, keep the log."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event

from packaging.version import Version

from turnsmith.environments.pythons import Python, find_python
from turnsmith.environments.workplace import UPPER, WORK, Workplace
from turnsmith.errors import TurnsmithError
from turnsmith.git.diff import is_excluded
from turnsmith.git.layers import walk_merged
from turnsmith.io.programs import run_program
from turnsmith.runs.folder import write_json
from turnsmith.runs.temporary import temporary_folder
from turnsmith.sandboxes.inside.local.root import ENVIRONMENT

FOLDER = "environments"
"""Name of a folder beside a task file. It holds the Python environments of these tasks."""
TIMEOUT_S = 1_800.0
"""Time limit of one install command, in seconds."""
POLL_S = 0.1
"""Seconds between checks of whether an install command has ended."""
UNUSED = shutil.ignore_patterns(
    "test", "idle_test", "tkinter", "turtledemo", "*.a", "site-packages", "dist-packages", "envs", "pkgs"
)
"""Files of a Python interpreter's folder that are not copied: tests, installed packages, conda's other environments."""
SYSTEM = ("/usr", "/usr/local")
"""Installation prefixes of the system's Python. It is not copied, since sandboxes mount these folders."""
VERSIONS = (
    "SETUPTOOLS_SCM_PRETEND_VERSION",
    "PBR_VERSION",
    "PDM_BUILD_SCM_VERSION",
    "POETRY_DYNAMIC_VERSIONING_BYPASS",
)
"""Environment variables by which a build gives build tools the project's version."""
COMPILED_SINCE = Version("3.7")
"""Oldest version of Python for which builds let uv compile bytecode."""
DROPPED = {
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "PYTHONDONTWRITEBYTECODE",
    "PIP_REQUIRE_VIRTUALENV",
}
"""Environment variables that install commands do not inherit, since they select other Pythons or change the installation."""
LEFT_OUT = {".git", "build", "dist", ".eggs", ".tox", ".nox", ".venv", "venv"}
"""Top-level folders whose new files are not kept after a build, since tests do not need them."""
SHARED = "shared"
"""Name of an environment's folder with links to the interpreter's libpython. LD_LIBRARY_PATH names that folder."""
CAUSES = ("error", "× ", "ERROR: ", "ModuleNotFoundError: ", "ImportError: ")
"""Prefixes of lines that state why a build failed. The error message quotes the log from the first such line on."""
MAX_CAUSE_CHARACTERS = 400


class BuildFailed(TurnsmithError):
    """Error raised if the build of an environment fails; its message names the command, the cause and the log file."""


class BuildStopped(TurnsmithError):
    """Error raised if the build of an environment is cancelled, so that the recipe does not count as failed."""


DESCRIPTION = re.compile(r"^Description:.*\n([ \t].*\n)*", re.MULTILINE)
"""Pattern of the header `Description` in package metadata. It is removed, because it could reveal fixes or hidden tests."""


@dataclass(frozen=True)
class Recipe:
    """Python version of an environment, and the install commands to run in the working tree, in order."""

    python: str
    """Full version of the Python interpreter, for example `3.9.18`."""
    commands: tuple[str, ...]
    """Bash commands that install packages; `python` in a command is the new environment's."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Path → digest of each file that the commands read. A changed file leads to a new environment."""
    version: str = "0"
    """Version of the project, for build tools that would read it from git history. Not part of the recipe's key."""

    @property
    def key(self) -> str:
        """Return the name of the recipe's environment, a hash of the recipe."""
        parts = (self.python, self.commands, sorted(self.digests.items()))
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables of install commands. They make uv compile bytecode, since sandboxes cannot write it."""
        compiles = {"UV_COMPILE_BYTECODE": "1"} if Version(self.python) >= COMPILED_SINCE else {}
        return {**dict.fromkeys(VERSIONS, self.version), **compiles}


@dataclass(frozen=True)
class Environment:
    """Built Python environment of a repository."""

    folder: Path
    """Folder of the environment's Python and packages, mounted at `/environment`."""
    layer: Path
    """Folder of the files that the build added to the working tree: metadata of the project, compiled modules."""


def locate(key: str, folder: Path) -> Environment:
    """Return the paths of an environment, by the key of its recipe and the folder of the task file."""
    place = folder / FOLDER / key
    return Environment(place, place.with_suffix(".tree"))


def build(recipe: Recipe, layers: tuple[Path, ...], workdir: str, folder: Path, stopped: Event) -> Environment:
    """Build an environment for the working tree stacked from `layers`, or return the existing one below `folder`.

    A build takes seconds to minutes; set `stopped` to cancel it. Raises BuildFailed, BuildStopped, UsageError.
    """
    place = locate(recipe.key, folder)
    if place.folder.is_dir():
        return place
    place.folder.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(f".{recipe.key}.turnsmith", place.folder.parent) as staged:
        python, changes = staged / "python", staged / "changes"
        for name in (UPPER, WORK):
            (changes / name).mkdir(parents=True)
        copy_python(find_python(recipe.python), python)
        for command in recipe.commands:
            workplace = Workplace(str(python), [*map(str, layers)], str(changes), workdir, ["/bin/bash", "-c", command])
            _run(workplace, recipe.variables, place.folder.with_suffix(".log"), stopped)
        keep_additions(changes / UPPER, layers)
        remove_descriptions(changes / UPPER, python)
        write_json(place.folder.with_suffix(".json"), asdict(recipe))
        shutil.rmtree(place.layer, ignore_errors=True)  # left by a build killed between the next two lines
        (changes / UPPER).rename(place.layer)
        python.rename(place.folder)
    return place


def copy_python(python: Python, target: Path) -> None:
    """Copy the folder of a Python interpreter, by hard links if possible. For the system's interpreter, create a venv."""
    if str(python.prefix) in SYSTEM:
        command = [str(python.program), "-m", "venv", "--without-pip", str(target)]
        run_program(command, f"cannot make an environment of {python.program}", error=BuildFailed)
    else:
        shutil.copytree(python.prefix, target, symlinks=True, ignore=UNUSED, copy_function=_link)
    (target / SHARED).mkdir()
    for library in python.prefix.glob("lib/libpython*.so*"):
        (target / SHARED / library.name).symlink_to(f"../lib/{library.name}")
    for name in ("python", "python3"):
        program = target / "bin" / name
        program.unlink(missing_ok=True)
        program.symlink_to(f"python{python.minor}" if str(python.prefix) not in SYSTEM else python.program)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _run(workplace: Workplace, variables: Mapping[str, str], log: Path, stopped: Event) -> None:
    """Run one install command of a recipe, and append its output to the log. Raises BuildFailed, BuildStopped."""
    command = workplace.command[-1]
    with log.open("ab") as output:
        output.write(f"$ {command}\n".encode())
        output.flush()
        begin = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "turnsmith.environments.workplace"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=make_variables(variables),
            start_new_session=True,
        )
        assert process.stdin
        with process, process.stdin as order:
            order.write(workplace.dumps().encode())
            order.close()
            _wait(process, stopped)
    if process.returncode:
        if process.returncode == -signal.SIGKILL:
            raise BuildFailed(f"{command!r} took longer than {TIMEOUT_S:.0f} s, or was killed; the log is {log}")
        raise BuildFailed(f"{command!r} failed: {find_cause(log.read_bytes()[begin:])}; the log is {log}")


def _wait(process: subprocess.Popen[bytes], stopped: Event) -> None:
    """Wait for a build process; kill it on cancellation or timeout. Raises BuildStopped."""
    deadline = time.monotonic() + TIMEOUT_S
    while process.poll() is None:
        if stopped.wait(POLL_S) or time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if stopped.is_set():
        raise BuildStopped("stopped while an environment was built")


def make_variables(given: Mapping[str, str]) -> dict[str, str]:
    """Build the environment variables of install commands: this process's, those that select the new Python, and `given`."""
    from uv import find_uv_bin  # from the extra `mine`

    inherited = {name: value for name, value in os.environ.items() if name not in DROPPED}
    places = [f"{ENVIRONMENT}/bin", str(Path(find_uv_bin()).parent), inherited.get("PATH", "/usr/bin:/bin")]
    ours = {
        "PATH": ":".join(places),
        "LD_LIBRARY_PATH": f"{ENVIRONMENT}/{SHARED}",
        "LC_ALL": "C.UTF-8",
        "UV_PYTHON": f"{ENVIRONMENT}/bin/python",
        "UV_BREAK_SYSTEM_PACKAGES": "1",
        "UV_LINK_MODE": "copy",
        "UV_NO_PROGRESS": "1",
    }
    return {**inherited, **ours, **given}


def find_cause(log: bytes) -> str:
    """Return the cause of a failure in a build log: all lines from the first error line on, or else the last line."""
    lines = [line.strip(" │╰─▶") for line in log.decode(errors="replace").splitlines() if line.strip()]
    first = next((place for place, line in enumerate(lines) if line.startswith(CAUSES)), len(lines) - 1)
    return " ".join(lines[first:])[:MAX_CAUSE_CHARACTERS] or "it printed nothing"


def keep_additions(upper: Path, layers: tuple[Path, ...]) -> None:
    """Keep only the files that a build added to the working tree; drop changed files, whiteouts, bytecode and build folders."""
    tracked = {path for path, _ in walk_merged(layers)}
    for path in sorted(upper.rglob("*"), reverse=True):
        below = path.relative_to(upper)
        is_kept = below.parts[0] not in LEFT_OUT and not any(map(is_excluded, below.parts))
        if path.is_dir() and not path.is_symlink():
            if not is_kept or not any(path.iterdir()):
                shutil.rmtree(path)
        elif not is_kept or str(below) in tracked or not (path.is_file() or path.is_symlink()):
            path.unlink()


def remove_descriptions(upper: Path, python: Path) -> None:
    """Remove the list of source files and the description from the metadata of the installed project.

    Tasks of earlier commits share the environment, and both texts could reveal the hidden tests or fixes of these tasks.
    """
    for files in upper.rglob("*.egg-info/SOURCES.txt"):
        files.unlink()
    installed = [path.with_name("METADATA") for path in python.glob("lib/*/*-packages/*.dist-info/direct_url.json")]
    for metadata in [*upper.rglob("*.egg-info/PKG-INFO"), *filter(Path.exists, installed)]:
        headers = metadata.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        metadata.write_text(DESCRIPTION.sub("", f"{headers}\n"), encoding="utf-8")
