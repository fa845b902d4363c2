"""Fork of a process that has imported pytest, compared with the interpreter that a shell starts."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import PytestCommand, SandboxSpec
from turnsmith.sandboxes.inside.toolbox import INTERPRETER
from turnsmith.sandboxes.runtime import prepare_runtime

LOOK = {
    "path": "sys.path",
    "arguments": "[sys.argv, sys.orig_argv]",
    "place": "[os.getcwd(), os.umask(0)]",
    "executable": "[sys.executable, sys._base_executable, sys.prefix, sys.base_prefix, sys.exec_prefix]",
    "environment": "dict(os.environ)",
    "hash": "hash('x')",
    "recursion": "sys.getrecursionlimit()",
    "site": "[site.ENABLE_USER_SITE, sorted(dir(builtins))]",
    "streams": "[[repr(s), s.errors, s.line_buffering] for s in (sys.__stdin__, sys.__stdout__, sys.__stderr__)]",
    "signals": "[repr(signal.getsignal(s)) for s in (signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM)]",
    "wakeup": "signal.set_wakeup_fd(-1)",
    "limits": "[[name, resource.getrlimit(getattr(resource, name))] for name in dir(resource) if name.startswith('RLIMIT_')]",
    "rights": "[line for line in open('/proc/self/status') if line.startswith(('Cap', 'NoNew', 'Seccomp', 'Uid', 'Gid'))]",
    "encodings": "[sys.getfilesystemencoding(), sys.getfilesystemencodeerrors(), locale.setlocale(locale.LC_ALL)]",
    "finders": "[getattr(finder, '__name__', type(finder).__name__) for finder in sys.meta_path]",
    "warnings": "sys.warnoptions",
    "main": "sys.modules['__main__'].__file__",
    "threads": "[threading.current_thread() is threading.main_thread(), threading.active_count()]",
    "flags": "{name: getattr(sys.flags, name) for name in dir(sys.flags) if not name.startswith(('_', 'n_', 'count', 'index'))}",
    "modules": "sorted(sys.modules)",
    "node": "platform.node()",
    "importers": "[path for path in sys.path_importer_cache if not path.startswith(('/opt/runtime', sys.base_prefix))]",
    "zone": "time.tzname",
    "names": "{name: dir(module) for name, module in sys.modules.items() if name.startswith('_pytest')}",
    "depth": "len(inspect.stack()) // 10",
    "above": "[os.getppid(), os.getsid(0) == os.getpid()]",
    "frames": "[variables for frame in inspect.stack() for variables in [repr(frame.frame.f_locals)] if 'wo' 'rd' in variables]",
    "sockets": "[link for link in map(read_link, os.listdir('/proc/self/fd')) if 'socket' in link]",
    "initial environment": "open('/proc/self/environ').read()",
}
"""Expressions that show the state of the interpreter."""
TEST = f"""
import builtins, inspect, json, locale, os, platform, random, resource, signal, site, sys, threading, time

def read_link(fd):
    try:
        return os.readlink("/proc/self/fd/" + fd)
    except OSError:
        return ""

def test_it():
    seen = {{name: eval(look) for name, look in {LOOK!r}.items()}}
    with open("/tmp/seen.json", "w") as file:
        json.dump(seen, file)
"""
ARGUMENTS = ["-q", "-rA", "--color=no", "-p", "no:cacheprovider", "test_it.py"]
PLUGIN = "import sys\nLINE = sys.stdin.readline()\n"


async def run_cold(sandbox, arguments, program="python", path="", env=None):
    """Run the code in an interpreter that a shell starts."""
    await sandbox.write("/tmp/home/plugin.py", PLUGIN.encode())
    variables = f"PYTHONPATH={path}$PYTHONPATH:$HOME PYTEST_PLUGINS=plugin"
    start = "pytest" if program == "pytest" else f"{program} -m pytest"
    command = f"{variables} {start} {' '.join(arguments)}"
    return await sandbox.exec(command, timeout_s=60, stdin=b"word\n", env=env)


async def run_warm(sandbox, arguments, program="python", search_path=(), env=None, timeout_s=60):
    command = PytestCommand(tuple(arguments), program, env or {}, tuple(search_path))
    return await sandbox.run_pytest(command, plugin=PLUGIN, timeout_s=timeout_s, stdin=b"word\n")


@pytest.fixture
def kind():
    return "local"


@pytest.fixture
async def ready(provider, tmp_path):
    """Return a function that makes a sandbox for tests over these files."""

    async def start(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        return await provider.start(SandboxSpec((tmp_path,), is_for_tests=True))

    return start


async def test_a_test_sees_the_same_as_in_a_fresh_interpreter(ready):
    sandbox = await ready(test_it=TEST)
    seen = []
    for run in (run_cold, run_warm):
        result = await run(sandbox, ARGUMENTS)
        assert result.exit_code == 0, result.output.decode()
        seen.append(json.loads(await sandbox.read("/tmp/seen.json")))
    cold, warm = seen
    assert differing(cold, warm) == {"environment", "modules", "names", "initial environment", "above"}
    assert differing(cold["environment"], warm["environment"]) == {"PYTEST_PLUGINS"}
    without = {
        "plugin",
        "_pytest.stepwise",
    }  # the plugin has a new name, and `-p no:cacheprovider` comes too late for the other
    assert {name for name in {*cold["modules"]} ^ {*warm["modules"]} if not name.startswith("plugin_")} == without
    assert differing(cold["names"], warm["names"]) == {"_pytest", "_pytest.stepwise"}
    assert warm["above"] == [1, True]
    assert warm["sockets"] == [] and warm["frames"] == []
    assert set(warm["initial environment"].split("\0")) == {
        *(f"{name}={value}" for name, value in INTERPRETER.items()),
        "",
    }


def differing(one, other):
    """Keys of two dictionaries whose values differ."""
    return {key for key in {*one, *other} if key not in one or key not in other or one[key] != other[key]}


async def test_it_was_really_forked_and_no_two_runs_draw_the_same(ready):
    sandbox = await ready(test_it="import os, random\ndef test_it():\n    print(os.getppid(), random.random())\n")
    results = [await run_warm(sandbox, [*ARGUMENTS, "-s"]) for _ in range(3)]
    assert all(result.is_warm for result in results)
    outputs = [result.output.split(b"\n")[0].split() for result in results]
    assert [words[0] for words in outputs] == [b"1"] * 3
    assert len({words[1] for words in outputs}) == 3


@pytest.mark.parametrize("program", ["python3", "pytest"])
async def test_it_looks_as_if_started_by_another_name_and_with_other_variables(ready, program):
    names = ("path", "arguments", "executable", "zone", "site")
    looks = ", ".join(f"{name!r}: {LOOK[name]}" for name in names)
    body = f"import builtins, json, os, site, sys, time\ndef test_it(): print(json.dumps({{{looks}, '_': os.environ['_']}}))\n"
    sandbox = await ready(test_it=body)
    await sandbox.write("src/a.py", b"")
    env, arguments = {"TZ": "Asia/Tokyo"}, [*ARGUMENTS, "-s"]
    cold = await run_cold(sandbox, arguments, program=program, path="src:lib:", env=env)
    warm = await run_warm(sandbox, arguments, program=program, search_path=["src", "lib"], env=env)
    assert warm.is_warm
    seen = [json.loads(result.output.split(b"\n")[0]) for result in (cold, warm)]
    assert seen[0] == seen[1]
    assert seen[1]["zone"] == ["JST", "JST"]


@pytest.mark.parametrize(
    ("variable", "look"),
    [("PYTHONOPTIMIZE", "__debug__"), ("PYTHONHASHSEED", "hash('x')"), ("PYTHONUTF8", "sys.flags.utf8_mode")],
)
async def test_a_variable_that_an_interpreter_obeys_from_its_start_is_obeyed(ready, variable, look):
    sandbox = await ready(test_it=f"import sys\ndef test_it(): print({look})\n")
    env = {variable: "1"}
    cold, warm = [await run(sandbox, [*ARGUMENTS, "-s"], env=env) for run in (run_cold, run_warm)]
    assert not warm.is_warm
    assert warm.output.split(b"\n")[0] == cold.output.split(b"\n")[0]


@pytest.mark.slow
async def test_where_pytest_cannot_be_imported_beforehand_it_is_said_and_tests_start_cold(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.rmtree(prepare_runtime() / "iniconfig")
    provider = make_provider(SandboxConfig(kind="local"))
    try:
        sandbox = await provider.start(SandboxSpec((tmp_path,), is_for_tests=True))
        result = await run_warm(sandbox, ARGUMENTS)
    finally:
        await provider.close()
    assert not result.is_warm and b"No module named 'iniconfig'" in result.output
    assert "pytest is not preloaded: ModuleNotFoundError" in capfd.readouterr().err


async def test_a_plugin_that_tasks_ask_for_is_imported_beforehand(tmp_path):
    (tmp_path / "test_it.py").write_text("import time\ndef test_it(): time.sleep(9)\n")
    provider = make_provider(SandboxConfig(kind="local", test_plugins=["pytest-timeout"]))
    try:
        sandbox = await provider.start(SandboxSpec((tmp_path,), is_for_tests=True))
        env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        result = await run_warm(sandbox, ["-p", "timeout", "--timeout=0.2", *ARGUMENTS], env=env)
        unknown = await run_warm(sandbox, ["--timeout=0.2", *ARGUMENTS], env=env)
    finally:
        await provider.close()
    assert result.is_warm and b"Timeout" in result.output, result.output.decode()
    assert b"unrecognized arguments" in unknown.output


def test_a_plugin_that_is_not_installed_is_named():
    with pytest.raises(UsageError, match="pytest-nowhere is not installed"):
        make_provider(SandboxConfig(kind="local", test_plugins=["pytest-nowhere"]))


@pytest.mark.parametrize("name", ["selectors", "resource", "code", "ctypes"])
async def test_a_module_of_the_tree_that_stands_in_for_another_is_found_first_as_ever(ready, name):
    body = f"import {name}\ndef test_it():\n    print({name}.__file__)\n"
    sandbox = await ready(test_it=body, **{name: STAND_IN})
    for run in (run_cold, run_warm):
        result = await run(sandbox, [*ARGUMENTS, "-s"])
        assert f"/testbed/{name}.py".encode() in result.output, result.output.decode()


@pytest.mark.parametrize("folder", ["src", "/tmp/home"])
async def test_a_module_that_stands_in_elsewhere_on_the_path_is_found_first_as_ever(ready, folder):
    sandbox = await ready(test_it="import selectors\ndef test_it(): print(selectors.__file__)\n")
    await sandbox.write(f"{folder}/selectors.py", STAND_IN.encode())
    cold = await run_cold(sandbox, [*ARGUMENTS, "-s"], path="src:")
    warm = await run_warm(sandbox, [*ARGUMENTS, "-s"], search_path=["src"])
    for result in (cold, warm):
        assert f"{folder}/selectors.py".encode() in result.output, result.output.decode()


async def test_a_module_that_a_folder_of_tests_brings_is_found_first_as_ever(ready, tmp_path):
    sandbox = await ready(conftest="import sys\nsys.path.insert(0, 'vendor')\n", test_it=FINDS)
    for name in ("resource", "ctypes", "termios"):
        await sandbox.write(f"vendor/{name}.py", b"ours = True\n")
    outcomes = [(await run(sandbox, ARGUMENTS)).exit_code for run in (run_cold, run_warm)]
    assert outcomes == [0, 0]


STAND_IN = """
class SelectSelector: pass
PollSelector = SelectSelector
class InteractiveInterpreter: pass
class InteractiveConsole(InteractiveInterpreter): pass
"""
"""Minimal module that pytest can import in its place."""
FINDS = """
import ctypes, resource, termios
def test_it():
    assert ctypes.ours and resource.ours and termios.ours
"""
CHANGES = (
    "os.chmod({0}, 0)",
    "os.chown({0}, os.getuid(), os.getgid())",
    "os.utime({0}, (1, 1))",
    "os.open({0}, os.O_RDWR)",
    "open({0}, 'ab')",
    "os.truncate({0}, 0)",
    "os.setxattr({0}, 'user.x', b'')",
    "os.unlink(os.readlink({0}))",
    "os.chmod(os.open({0}, os.O_RDONLY), 0)",
    "os.link({0}, '/tmp/python')",
)
TRIES = "import os, pytest\n" + "".join(
    f"def test_{number}():\n    with pytest.raises(OSError): {change.format(repr('/proc/self/exe'))}\n"
    for number, change in enumerate(CHANGES)
)


async def test_the_interpreter_of_the_host_cannot_be_changed(ready):
    sandbox = await ready(test_it=TRIES)
    interpreter = Path(sys._base_executable).resolve()
    before = interpreter.stat()
    for run in (run_cold, run_warm):
        result = await run(sandbox, ARGUMENTS)
        assert f"{len(CHANGES)} passed" in result.output.decode(), result.output.decode()
    after = interpreter.stat()
    assert (before.st_mode, before.st_mtime, before.st_size) == (after.st_mode, after.st_mtime, after.st_size)


async def test_what_hangs_is_ended_with_all_that_it_started(ready):
    body = "import subprocess, time\ndef test_it():\n    subprocess.Popen(['sleep', '99'])\n    time.sleep(99)"
    sandbox = await ready(test_it=body)
    result = await run_warm(sandbox, ARGUMENTS, timeout_s=1.5)
    assert result.timed_out
    left = await sandbox.exec("ls /proc | grep -c '^[0-9]'", timeout_s=10)
    assert int(left.output) <= 4  # process 1, the shell and its two programs


def test_a_fork_that_cannot_have_its_streams_ends_and_no_second_supervisor_goes_on():
    code = (
        "import os, sys; from turnsmith.sandboxes.inside import warm\n"
        "try: pid = warm.fork_pytest({}, {}, {0: 9999})\n"
        "except OSError: print('a second one goes on')\n"
        "else: print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output == "126\n"
