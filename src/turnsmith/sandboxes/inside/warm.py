"""Fast start of `python -m pytest`: a fork of a process that has imported pytest but no code of a task.

A test compares the fork with a fresh interpreter. Known differences: arguments and variables in /proc; stack frames below
pytest's own; plugins that are imported although disabled; import times and `logging`'s relative times; the fork is a
session leader and a child of process 1.
"""

# ruff: noqa: PTH109, PTH112, PTH208

import contextlib
import ctypes
import gc
import importlib
import inspect
import os
import platform
import resource
import runpy
import shutil
import signal
import site
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from turnsmith.sandboxes.inside import kernel
from turnsmith.sandboxes.inside.command import NOT_STARTED, WARM, Streams
from turnsmith.sandboxes.inside.toolbox import CWD_FD, INTERPRETER, REPORT_FD
from turnsmith.sandboxes.inside.wire import Header

MODULE = "pytest"
FORGOTTEN = ("ctypes", "_ctypes", "resource", "termios", "socket", "_socket", "array")
"""Modules that `preload` removes from `sys.modules`. The supervisor imported them, but not every pytest process does."""
_preloaded: set[str] = set()
"""Names of the modules that were imported with pytest before any fork."""


def preload(runtime: str) -> None:
    """Import pytest, its default plugins, and all plugins that are installed in the folder `runtime`."""
    sys.path.insert(0, runtime)
    for name in [name for name in sys.modules if name.partition(".")[0] in FORGOTTEN]:
        del sys.modules[name]  # references held here stay valid; pytest imports fresh copies
    try:
        importlib.import_module(MODULE)
        for name in importlib.import_module("_pytest.config").default_plugins:
            importlib.import_module(f"_pytest.{name}")
        for plugin in _plugins_in(runtime):
            importlib.import_module(plugin)
    finally:
        sys.path.remove(runtime)
    _preloaded.update(name for name in sys.modules if not name.startswith(("turnsmith", "__main__")))
    gc.freeze()  # keep shared objects out of garbage collection, which would copy their pages


def _plugins_in(runtime: str) -> list[str]:
    import importlib.metadata  # already imported by pytest; not needed by other processes

    found = [point for one in importlib.metadata.distributions(path=[runtime]) for point in one.entry_points]
    return [point.module for point in found if point.group == "pytest11"]


@dataclass(eq=False)
class Forked(BaseException):
    """Exception that ends the supervisor's loop in a forked child, which then becomes pytest."""

    request: Header
    limits: dict[int, int]


def fork_pytest(request: Header, limits: dict[int, int], streams: Streams) -> int:
    """Fork a process for pytest; return its process id. Raises Forked in the child."""
    pid = os.fork()
    if pid == 0:
        try:
            for place, fd in streams.items():
                os.dup2(fd, place)
        except OSError:
            os._exit(NOT_STARTED)  # else a second supervisor would run
        raise Forked(request, limits)
    return pid


def until_forked(serve: Callable[[], None]) -> Callable[[], None]:
    """Wrap a main function so that a forked child, which raises Forked, leaves the function and becomes pytest."""

    def serve_or_be_pytest() -> None:
        try:
            serve()
        except Forked as forked:
            child = forked.with_traceback(None)
        else:
            return
        be_pytest(child)

    return serve_or_be_pytest


def be_pytest(forked: Forked) -> None:
    """Run `python -m pytest` in this fork, or in a new interpreter if the fork could give other results. Raises SystemExit."""
    _leave_parent(forked)
    request = forked.request
    python = "python" if request["program"] == MODULE else request["program"]
    command = [python, "-m", MODULE, *request["arguments"]]
    executable = shutil.which(python) or python
    if MODULE not in sys.modules or _has_other_variables() or _may_shadow(request):
        os.close(CWD_FD)
        os.execve(executable, command, dict(os.environ))
    os.write(CWD_FD, WARM)
    os.close(CWD_FD)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    for name in sys.modules.keys() - _preloaded:
        del sys.modules[name]
    _look_fresh(executable, command)
    runpy._run_module_as_main(MODULE)  # type: ignore[attr-defined]  # what `-m` calls


def _leave_parent(forked: Forked) -> None:
    """Detach the forked child from the supervisor, and apply the request's directory, environment variables and limits."""
    os.setsid()
    os.closerange(3, CWD_FD)
    os.closerange(REPORT_FD + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(forked.request["cwd"])
    os.environ.clear()
    os.environ.update(_environment(forked.request))
    for kind, limit in forked.limits.items():
        with contextlib.suppress(OSError, ValueError):  # as in a shell, if a lower limit is already set
            resource.setrlimit(kind, (limit, limit))


def _environment(request: Header) -> dict[str, str]:
    """Build the environment variables of pytest: those that bash would set, and those that load the request's plugin."""
    variables: dict[str, str] = request["env"]
    home, name = variables["HOME"], f"plugin_{os.urandom(8).hex()}"
    Path(home, f"{name}.py").write_text(request["plugin"], "utf-8")
    return {
        **variables,
        "PWD": request["cwd"],
        "SHLVL": "1",
        "_": shutil.which(request["program"], path=variables["PATH"]) or request["program"],
        "PYTEST_PLUGINS": name,
        "PYTHONPATH": ":".join([*request["search_path"], variables["PYTHONPATH"], home]),
    }


def _has_other_variables() -> bool:
    """Return True if pytest needs a new interpreter, since a variable PYTHON* differs from this interpreter's."""
    current = {name: value for name, value in os.environ.items() if name.startswith("PYTHON") and name != "PYTHONPATH"}
    return current != {name: value for name, value in INTERPRETER.items() if name.startswith("PYTHON")}


def _may_shadow(request: Header) -> bool:
    """Return True if the workdir or search path holds a module with the name of a preloaded module."""
    loaded = {name.partition(".")[0] for name in _preloaded}
    folders = [request["cwd"], *request["search_path"], request["env"]["HOME"]]
    names = (name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder))
    return not loaded.isdisjoint(inspect.getmodulename(name) or name for name in names)


def _look_fresh(executable: str, command: list[str]) -> None:
    sys.modules["__main__"] = ModuleType("__main__")
    _set_flags(no_site=0, safe_path=False)
    sys.executable = sys._base_executable = executable  # type: ignore[attr-defined]
    sys.orig_argv = list(command)
    sys.argv = command[2:]
    sys.path[:] = [*os.environ["PYTHONPATH"].split(":"), *sys.path[:-1]]  # the last entry is Turnsmith's own path
    sys.path_importer_cache.clear()
    platform._uname_cache = None  # type: ignore[attr-defined]  # the cache holds the host's name
    time.tzset()
    site.main()
    sys.path.insert(0, os.getcwd())


def _set_flags(**flags: int) -> None:
    """Set fields of `sys.flags`, which multiprocessing passes on to child interpreters."""
    setter = ctypes.pythonapi.PyStructSequence_SetItem
    setter.argtypes, setter.restype = [ctypes.py_object, ctypes.c_ssize_t, ctypes.py_object], None
    for name, value in flags.items():
        setter(sys.flags, type(sys.flags).__match_args__.index(name), value)
