"""`python -m pytest` without its start: a fork of a process that imported pytest before any code of a task was near.

What a test can see is as in a fresh interpreter, and a test of ours compares the two, but for: two of `sys.flags`; which modules
are imported already; arguments and variables as /proc shows them; our few frames below its own; no shell above it.
"""

# ruff: noqa: PTH109, PTH110, PTH118, PTH208

import atexit
import contextlib
import gc
import importlib
import io
import os
import resource
import runpy
import signal
import site
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.toolbox import INTERPRETER
from turnsmith.sandboxes.inside.wire import Header

PYTHON = "python"
MODULE = "pytest"
LATE = ("faulthandler", "pdb", "_pytest._argcomplete")
"""What pytest imports only when it runs."""
HIDDEN = ("turnsmith", "__main__")
"""Modules of ours, which the code under test does not find."""


def preload(runtime: str) -> None:
    """Import pytest and the plugins that every run of it imports, from the test runtime and nowhere else."""
    sys.path.insert(0, runtime)
    plugins = importlib.import_module("_pytest.config").default_plugins
    for module in [*LATE, *(f"_pytest.{plugin}" for plugin in plugins), MODULE]:
        importlib.import_module(module)
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


def be_pytest(forked: Forked) -> NoReturn:
    """Go on as the interpreter that `python -m pytest` starts; start that one where this is not as good."""
    try:
        _leave_parent(forked)
        environment, command = os.environ, [PYTHON, "-m", MODULE, *forked.request["arguments"]]
        if MODULE not in sys.modules or _is_told_otherwise(environment) or _stands_in(forked.request["arguments"]):
            os.execve(environment["_"], command, dict(environment))
        kernel.set_dumpable(True)
        _look_fresh(command, environment)
        os._exit(_run_to_the_end())
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


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
        "_": _find_python(variables["PATH"]),
        "PYTEST_PLUGINS": name,
        "PYTHONPATH": f"{variables['PYTHONPATH']}:{home}",
    }


def _find_python(path: str) -> str:
    """The interpreter as a shell finds it."""
    places = (os.path.join(folder, PYTHON) for folder in path.split(":"))
    return next(place for place in places if os.access(place, os.X_OK))


def _is_told_otherwise(environment: Mapping[str, str]) -> bool:
    """Is there a variable that an interpreter obeys from its start, other than those that ours was started with?"""
    told = {name: value for name, value in environment.items() if name.startswith("PYTHON") and name != "PYTHONPATH"}
    return told != {name: value for name, value in INTERPRETER.items() if name.startswith("PYTHON")}


def _stands_in(arguments: list[str]) -> bool:
    """Does the tree have a module of a name that is imported already, where a fresh interpreter would find it first?"""
    files = [Path(argument) for argument in arguments if os.path.exists(argument)]
    folders = {Path(), Path("src"), *(above for file in files for above in file.parents)}
    loaded = {name.partition(".")[0] for name in sys.modules}.difference(HIDDEN)
    return not loaded.isdisjoint(name for folder in folders for name in _module_names(folder))


def _module_names(folder: Path) -> Iterator[str]:
    """What could be imported from a folder."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            stem, _, suffix = name.partition(".")
            if not suffix or name.endswith((".py", ".pyc", ".so")):
                yield stem


def _look_fresh(command: list[str], environment: Mapping[str, str]) -> None:
    """Paths, arguments, streams and modules as at the start of an interpreter."""
    for name in [name for name in sys.modules if name.partition(".")[0] in HIDDEN]:
        del sys.modules[name]
    sys.executable = sys._base_executable = environment["_"]  # type: ignore[attr-defined]
    sys.orig_argv = list(command)
    sys.argv = command[2:]
    sys.path[:] = [*environment["PYTHONPATH"].split(":"), *sys.path[:-1]]  # the last one is where we come from
    sys.path_importer_cache.clear()
    time.tzset()
    _open_streams()
    site.main()
    sys.path.insert(0, os.getcwd())


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
        stream = io.TextIOWrapper(buffer, "utf-8", errors, line_buffering=name == "stderr")
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run_to_the_end() -> int:
    """Run, then do what an interpreter does at its end; the exit code."""
    code = _run()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    return code


def _run() -> int:
    try:
        runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
