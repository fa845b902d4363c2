"""Files that Turnsmith adds to a sandbox: `python`, `pytest`, and the script that bash reads before each command."""

from pathlib import Path
from resource import RLIMIT_CORE, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_NPROC

from turnsmith.sandboxes.inside.wire import Limits

CWD_FD = 250
"""File descriptor on which bash reports the directory in which it ends; scripts rarely use so high a number."""

REPORT_FD = 251
"""File descriptor on which a command may write a report, separate from its output."""

MAX_OPEN_FILES = 4096

_ULIMIT = {
    RLIMIT_NPROC: ("u", 1),
    RLIMIT_FSIZE: ("f", 1024),
    RLIMIT_DATA: ("d", 1024),
    RLIMIT_NOFILE: ("n", 1),
    RLIMIT_CORE: ("c", 1),
}
"""Resource → option letter and unit in bytes (or items) of bash's `ulimit`."""

INTERPRETER = {"LANG": "C", "LC_CTYPE": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
"""Environment variables of every Python in a sandbox.

Only LC_CTYPE is UTF-8, because with a full C.UTF-8 locale each shell reads a dozen files at its start.
"""


def interpreter_arguments(python: str, module: str) -> list[str]:
    """Build the command that runs a module of `sandboxes.inside` without site-packages.

    Start it in the folder that holds `turnsmith`. No argument names this folder, since sandboxed code reads them in /proc.
    """
    code = (
        "import os, sys; sys.path.append(os.getcwd()); os.chdir('/'); "
        f"from turnsmith.sandboxes.inside.{module} import main; main()"
    )
    return [python, "-S", "-P", "-c", code]


def write_toolbox(folder: Path, python: str, setup: str) -> None:
    """Write the programs `bin/python` and `bin/pytest`, and bash's setup script `shell.sh`, into a folder."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(parents=True)
    for name in ("python", "python3"):
        (bin_folder / name).symlink_to(python)
    (bin_folder / "pytest").write_text('#!/bin/sh\nexec python -m pytest "$@"\n')
    (bin_folder / "pytest").chmod(0o755)
    (folder / "shell.sh").write_text(setup)


def shell_setup(numbers: dict[int, int]) -> str:
    """Build the script that bash reads first (BASH_ENV): it sets hard limits, and reports bash's directory at exit."""
    limits = "; ".join(f"ulimit -{_ULIMIT[kind][0]} {number // _ULIMIT[kind][1]}" for kind, number in numbers.items())
    return f"{{ {limits}; }} 2> /dev/null\ntrap 'pwd >&{CWD_FD}' EXIT\nunset BASH_ENV\n"


def resource_limits(limits: Limits, *, has_own_processes: bool = True, has_own_disk: bool = False) -> dict[int, int]:
    """Map each resource to the hard limit for setrlimit.

    The number of processes is limited if the kernel counts them for this sandbox alone. File sizes are limited if the sandbox
    has no file system of limited size.
    """
    return {
        **({RLIMIT_NPROC: limits.num_processes} if has_own_processes else {}),
        **({} if has_own_disk else {RLIMIT_FSIZE: limits.disk_bytes}),
        RLIMIT_DATA: limits.memory_bytes,
        RLIMIT_NOFILE: MAX_OPEN_FILES,
        RLIMIT_CORE: 0,
    }


def environment(toolbox: str, runtime: str, home: str) -> dict[str, str]:
    """Build the environment variables of every command in a sandbox; none comes from the host."""
    return {
        "PATH": f"{toolbox}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
        **INTERPRETER,
        "PYTHONPATH": runtime,
        "HOME": home,
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "TZ": "UTC",
        "TERM": "dumb",
        "PAGER": "cat",
    }


def with_own_python(variables: dict[str, str], folder: str) -> dict[str, str]:
    """Put a task's Python environment first on PATH, and its libraries on LD_LIBRARY_PATH; drop PYTHONPATH."""
    others = {name: value for name, value in variables.items() if name != "PYTHONPATH"}
    return {**others, "PATH": f"{folder}/bin:{variables['PATH']}", "LD_LIBRARY_PATH": f"{folder}/shared"}
