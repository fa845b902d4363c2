"""`python -m pytest` without its start: a fork of a process that imported pytest before any code of a task was near.

What a test can see is as in a fresh interpreter, and a test of ours compares the two, but for: what /proc shows of arguments and
variables; a few frames of ours below its own; plugins that were asked for, imported also where they are not loaded; when modules
were imported, from which `logging` counts its times; and that it leads its session, with process 1 and no shell for a parent.
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
OURS = ("ctypes", "_ctypes", "resource", "termios", "socket", "_socket", "array")
"""Modules that we have imported and pytest, depending on the version of Python, has not."""
_preloaded: set[str] = set()
"""Modules that pytest has imported. A fresh interpreter could find others only where it is started, and on PYTHONPATH."""


def preload(runtime: str) -> None:
    """Import pytest and its plugins, those that every run imports and those beside it, from the test runtime and nowhere else."""
    sys.path.insert(0, runtime)
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]  # we hold what we need of them; pytest finds its own
    try:
        importlib.import_module(MODULE)
        for name in importlib.import_module("_pytest.config").default_plugins:
            importlib.import_module(f"_pytest.{name}")
        for plugin in _plugins_in(runtime):
            importlib.import_module(plugin)
    finally:
        sys.path.remove(runtime)
    _preloaded.update(name for name in sys.modules if not name.startswith(("turnsmith", "__main__")))
    gc.freeze()  # what every fork has in common need not be gone through, nor copied, whenever one collects


def _plugins_in(runtime: str) -> list[str]:
    import importlib.metadata  # which pytest has imported by now, and who runs no tests need not

    found = [point for one in importlib.metadata.distributions(path=[runtime]) for point in one.entry_points]
    return [point.module for point in found if point.group == "pytest11"]


@dataclass(eq=False)
class Forked(BaseException):
    """We are a new process: everyone above lets go, and whoever is at the top goes on as pytest."""

    request: Header
    limits: dict[int, int]


def fork_pytest(request: Header, limits: dict[int, int], streams: Streams) -> int:
    """Start `python -m pytest` with a request's arguments, environment and plugin; its process id. Raises Forked there."""
    pid = os.fork()
    if pid == 0:
        try:
            for place, fd in streams.items():
                os.dup2(fd, place)
        except OSError:
            os._exit(NOT_STARTED)  # else a second supervisor would go on
        raise Forked(request, limits)
    return pid


def until_forked(serve: Callable[[], None]) -> Callable[[], None]:
    """Serve; a process that was forked to run tests comes up here, free of all that served."""

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
    """Go on as the interpreter that `python -m pytest` starts; start that one where this is not as good. Raises SystemExit."""
    _leave_parent(forked)
    request = forked.request
    python = "python" if request["program"] == MODULE else request["program"]
    command = [python, "-m", MODULE, *request["arguments"]]
    executable = shutil.which(python) or python
    if MODULE not in sys.modules or _is_told_otherwise() or _stands_in(request):
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
    """Nothing of the supervisor's stays open, and directory, environment and limits are the request's."""
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
        with contextlib.suppress(OSError, ValueError):  # as a shell does where less is allowed already
            resource.setrlimit(kind, (limit, limit))


def _environment(request: Header) -> dict[str, str]:
    """What a shell would hand on, and the plugin beside the tree."""
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


def _is_told_otherwise() -> bool:
    """Is there a variable that an interpreter obeys from its start, other than those that ours was started with?"""
    told = {name: value for name, value in os.environ.items() if name.startswith("PYTHON") and name != "PYTHONPATH"}
    return told != {name: value for name, value in INTERPRETER.items() if name.startswith("PYTHON")}


def _stands_in(request: Header) -> bool:
    """Could a fresh interpreter find another module of a name that is imported already, outside of the test runtime?"""
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
    sys.path[:] = [*os.environ["PYTHONPATH"].split(":"), *sys.path[:-1]]  # the last one is where we come from
    sys.path_importer_cache.clear()
    platform._uname_cache = None  # type: ignore[attr-defined]  # it holds the host's name
    time.tzset()
    site.main()
    sys.path.insert(0, os.getcwd())


def _set_flags(**flags: int) -> None:
    """Change `sys.flags`, from which multiprocessing makes the arguments of the interpreters that it starts."""
    setter = ctypes.pythonapi.PyStructSequence_SetItem
    setter.argtypes, setter.restype = [ctypes.py_object, ctypes.c_ssize_t, ctypes.py_object], None
    for name, value in flags.items():
        setter(sys.flags, type(sys.flags).__match_args__.index(name), value)
