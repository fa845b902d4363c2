"""`python -m pytest` without its start: a fork of a process that imported pytest before any code of a task was near.

What a test can see is as in a fresh interpreter, and a test of ours compares the two, but for: what /proc shows of arguments and
variables; a few frames of ours below its own; no shell above it, so it leads its session and its parent is process 1; when
modules were imported, from which `logging` counts its relative times.
"""

# ruff: noqa: PTH109, PTH116, PTH208

import contextlib
import ctypes
import gc
import importlib
import io
import os
import platform
import re
import resource
import runpy
import shutil
import signal
import site
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.toolbox import INTERPRETER
from turnsmith.sandboxes.inside.wire import Header

PYTHON = "python"
MODULE = "pytest"
HIDDEN = ("turnsmith", "__main__", "ctypes", "_ctypes", "resource", "termios")
"""Modules that we have imported and pytest has not: the code under test finds its own.

So of all that is imported already a fresh interpreter could find another only in the directory in which it is started.
"""


def preload(runtime: str) -> None:
    """Import pytest and the plugins that every run of it imports, from the test runtime and nowhere else."""
    sys.path.insert(0, runtime)
    try:
        for plugin in importlib.import_module("_pytest.config").default_plugins:
            importlib.import_module(f"_pytest.{plugin}")
        importlib.import_module(MODULE)
    finally:
        sys.path.remove(runtime)
    gc.freeze()  # what every fork has in common need not be gone through, nor copied, whenever one collects


@dataclass(eq=False)
class Forked(BaseException):
    """We are a new process: everyone above lets go, and whoever is at the top goes on as pytest."""

    request: Header
    limits: dict[int, int]


def fork_pytest(request: Header, limits: dict[int, int], stdin_fd: int, output_fd: int) -> int:
    """Start `python -m pytest` with a request's arguments, environment and plugin; its process id. Raises Forked there."""
    pid = os.fork()
    if pid == 0:
        for fd, stream in ((stdin_fd, 0), (output_fd, 1), (output_fd, 2)):
            os.dup2(fd, stream)
        raise Forked(request, limits)
    return pid


def be_pytest(forked: Forked) -> None:
    """Go on as the interpreter that `python -m pytest` starts; start that one where this is not as good. Raises SystemExit."""
    _leave_parent(forked)
    environment, command = os.environ, [PYTHON, "-m", MODULE, *forked.request["arguments"]]
    if MODULE not in sys.modules or _is_told_otherwise(environment) or _is_ours_to_change() or _stands_in():
        os.execve(environment["_"], command, dict(environment))
    kernel.set_dumpable(True)
    _look_fresh(command, environment)
    runpy._run_module_as_main(MODULE)  # type: ignore[attr-defined]  # what `-m` calls


def _leave_parent(forked: Forked) -> None:
    """Nothing of the supervisor's stays open, and directory, environment and limits are the request's."""
    os.setsid()
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    _reset_signals()
    os.chdir(forked.request["cwd"])
    os.environ.clear()
    os.environ.update(_environment(forked.request))
    for kind, limit in forked.limits.items():
        with contextlib.suppress(OSError, ValueError):  # as a shell does where less is allowed already
            resource.setrlimit(kind, (limit, limit))


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _environment(request: Header) -> dict[str, str]:
    """What a shell would hand on, and the plugin beside the tree."""
    variables: dict[str, str] = request["env"]
    home, name = variables["HOME"], f"plugin_{os.urandom(8).hex()}"
    Path(home, f"{name}.py").write_text(request["plugin"])
    return {
        **variables,
        "PWD": request["cwd"],
        "SHLVL": "1",
        "_": shutil.which(PYTHON, path=variables["PATH"]) or PYTHON,
        "PYTEST_PLUGINS": name,
        "PYTHONPATH": f"{variables['PYTHONPATH']}:{home}",
    }


def _is_told_otherwise(environment: Mapping[str, str]) -> bool:
    """Is there a variable that an interpreter obeys from its start, other than those that ours was started with?"""
    told = {name: value for name, value in environment.items() if name.startswith("PYTHON") and name != "PYTHONPATH"}
    return told != {name: value for name, value in INTERPRETER.items() if name.startswith("PYTHON")}


def _is_ours_to_change() -> bool:
    """Could the code under test change the interpreter's file? /proc/self/exe of a fork is the host's, not a read-only one."""
    return os.stat("/proc/self/exe").st_uid == os.getuid()


def _stands_in() -> bool:
    """Is there a module in this directory of a name that is imported already, which a fresh interpreter would find first?"""
    loaded = {name.partition(".")[0] for name in sys.modules}.difference(HIDDEN)
    return not loaded.isdisjoint(_module_names())


def _module_names() -> Iterator[str]:
    """What could be imported from this directory."""
    for name in os.listdir():
        stem, _, suffix = name.partition(".")
        if not suffix or name.endswith((".py", ".pyc", ".so")):
            yield stem


def _look_fresh(command: list[str], environment: Mapping[str, str]) -> None:
    """Flags, paths, arguments, streams and modules as at the start of an interpreter."""
    for name in [name for name in sys.modules if name.partition(".")[0] in HIDDEN]:
        del sys.modules[name]
    sys.modules["__main__"] = ModuleType("__main__")
    _set_flags(no_site=0, safe_path=False)
    sys.executable = sys._base_executable = environment["_"]  # type: ignore[attr-defined]
    sys.orig_argv = list(command)
    sys.argv = command[2:]
    sys.path[:] = [*environment["PYTHONPATH"].split(":"), *sys.path[:-1]]  # the last one is where we come from
    sys.path_importer_cache.clear()
    platform._uname_cache = None  # type: ignore[attr-defined]  # it holds the host's name
    time.tzset()
    _open_streams()
    site.main()
    sys.path.insert(0, os.getcwd())


def _set_flags(**flags: int) -> None:
    """Change `sys.flags`, from which multiprocessing makes the arguments of the interpreters that it starts."""
    names: list[str] = re.findall(r"(\w+)=", repr(sys.flags))
    setter = ctypes.pythonapi.PyStructSequence_SetItem
    setter.argtypes, setter.restype = [ctypes.py_object, ctypes.c_ssize_t, ctypes.py_object], None
    for name, value in flags.items():
        setter(sys.flags, names.index(name), value)


def _open_streams() -> None:
    """Standard streams as in the locale C.UTF-8, where they are no terminal."""
    streams = {
        "stdin": ("r", "surrogateescape"),
        "stdout": ("w", "surrogateescape"),
        "stderr": ("w", "backslashreplace"),
    }
    for fd, (name, (mode, errors)) in enumerate(streams.items()):
        buffer = open(fd, f"{mode}b", closefd=False)  # noqa: SIM115  (for as long as this process lives)
        buffer.raw.name = f"<{name}>"  # type: ignore[attr-defined]
        stream = io.TextIOWrapper(buffer, "utf-8", errors, "\n", line_buffering=name == "stderr")
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
