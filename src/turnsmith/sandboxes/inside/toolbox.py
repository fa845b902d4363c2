"""The few files that a sandbox holds besides the host's system: `python`, `pytest`, and what bash reads before a command."""

from pathlib import Path

from turnsmith.sandboxes.inside.wire import Limits

CWD_FD = 250
"""Where the shell reports the directory in which it ended; a number that no script uses by habit."""

MAX_OPEN_FILES = 4096

PYTEST = """#!/bin/sh
exec python -m pytest "$@"
"""


def write_toolbox(folder: Path, python: str, setup: str) -> None:
    """Fill `folder` with `bin/` and `shell.sh`."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(parents=True)
    for name in ("python", "python3"):
        (bin_folder / name).symlink_to(python)
    (bin_folder / "pytest").write_text(PYTEST)
    (bin_folder / "pytest").chmod(0o755)
    (folder / "shell.sh").write_text(setup)


def shell_setup(limits: Limits, *, is_contained: bool) -> str:
    """What bash reads (BASH_ENV) before the command: hard limits, and the report of the last directory.

    The limits stand here, not in the supervisor, so that the supervisor itself never runs into them. Where nothing is
    contained, processes cannot be counted apart from the user's others, and files are limited one by one.
    """
    own_limit = f"-u {limits.num_processes}" if is_contained else f"-f {limits.disk_bytes // 1024}"
    ulimit = f"ulimit {own_limit} -d {limits.memory_bytes // 1024} -n {MAX_OPEN_FILES} -c 0 2> /dev/null"
    return f"{ulimit}\ntrap 'pwd >&{CWD_FD}' EXIT\nunset BASH_ENV\n"


def environment(toolbox: str, runtime: str, home: str) -> dict[str, str]:
    """The small clean environment of every command: nothing of the host's."""
    return {
        "PATH": f"{toolbox}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        "PYTHONPATH": runtime,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "HOME": home,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "PAGER": "cat",
    }


def with_shell_setup(variables: dict[str, str], toolbox: str) -> dict[str, str]:
    """The variables with the one that makes bash read `shell.sh`; nobody else may set it."""
    return {**variables, "BASH_ENV": f"{toolbox}/shell.sh"}
