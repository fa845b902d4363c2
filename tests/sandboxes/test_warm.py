"""A fork of a process that has imported pytest, beside the interpreter that a shell would start."""

import json
import sys
from pathlib import Path

import pytest

from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.inside.toolbox import INTERPRETER

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
    "depth": "len(inspect.stack()) // 10",
    "above": "[os.getppid(), os.getsid(0) == os.getpid()]",
    "frames": "[variables for frame in inspect.stack() for variables in [repr(frame.frame.f_locals)] if 'wo' 'rd' in variables]",
    "sockets": "[link for link in map(read_link, os.listdir('/proc/self/fd')) if 'socket' in link]",
    "initial environment": "open('/proc/self/environ').read()",
}
"""What there is to see, each as an expression."""
TEST = f"""
import builtins, inspect, json, locale, os, platform, random, resource, signal, site, sys, threading

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


async def run_cold(sandbox, arguments):
    """The same by a shell."""
    await sandbox.write("/tmp/home/plugin.py", PLUGIN.encode())
    variables = "PYTHONPATH=$PYTHONPATH:$HOME PYTEST_PLUGINS=plugin"
    return await sandbox.exec(f"{variables} python -m pytest {' '.join(arguments)}", timeout_s=60, stdin=b"word\n")


async def run_warm(sandbox, arguments):
    return await sandbox.run_pytest(arguments, plugin=PLUGIN, timeout_s=60, stdin=b"word\n")


@pytest.fixture
def kind():
    return "local"


@pytest.fixture
async def ready(provider, tmp_path):
    """Makes a sandbox for tests over some files."""

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
    assert differing(cold, warm) == {"environment", "modules", "initial environment", "above"}
    assert differing(cold["environment"], warm["environment"]) == {"PYTEST_PLUGINS"}
    without = {
        "plugin",
        "_pytest.stepwise",
    }  # the plugin has a new name, and `-p no:cacheprovider` comes too late for the other
    assert {name for name in {*cold["modules"]} ^ {*warm["modules"]} if not name.startswith("plugin_")} == without
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
    outputs = [(await run_warm(sandbox, [*ARGUMENTS, "-s"])).output.split(b"\n")[0].split() for _ in range(3)]
    assert [words[0] for words in outputs] == [b"1"] * 3
    assert len({words[1] for words in outputs}) == 3


@pytest.mark.parametrize("name", ["selectors", "resource", "code", "ctypes"])
async def test_a_module_of_the_tree_that_stands_in_for_another_is_found_first_as_ever(ready, name):
    body = f"import {name}\ndef test_it():\n    print({name}.__file__)\n"
    sandbox = await ready(test_it=body, **{name: STAND_IN})
    for run in (run_cold, run_warm):
        result = await run(sandbox, [*ARGUMENTS, "-s"])
        assert f"/testbed/{name}.py".encode() in result.output, result.output.decode()


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
"""As much as pytest needs of them."""
FINDS = """
import ctypes, resource, termios
def test_it():
    assert ctypes.ours and resource.ours and termios.ours
"""
ENDINGS = {
    "passes": "def test_it(): pass",
    "fails": "def test_it(): assert 1 == 2",
    "does not compile": "def test_it(: pass",
    "cannot be imported": "import nowhere",
    "leaves at once": "import os\ndef test_it(): os._exit(7)",
    "leaves": "import sys\nsys.exit(5)",
    "is killed": "import os\ndef test_it(): os.kill(os.getpid(), 9)",
    "crashes": "import ctypes\ndef test_it(): ctypes.string_at(0)",
    "interrupts": "def test_it(): raise KeyboardInterrupt",
    "has a handler at the end": "import atexit\natexit.register(print, 'the end')\ndef test_it(): pass",
    "has a handler that leaves": "import atexit, os\natexit.register(os._exit, 9)\ndef test_it(): pass",
    "leaves a thread": "import threading, time\ndef test_it(): threading.Timer(0.3, print, ['late']).start()",
    "forks": "import os\ndef test_it():\n    pid = os.fork()\n    if not pid: os._exit(3)\n"
    "    assert os.waitpid(pid, 0)[1] >> 8 == 3",
    "frees what leaves": "import os\nclass A:\n    def __del__(self, leave=os._exit): leave(9)\na = A()\ndef test_it(): pass",
    "closes its output": "import os, atexit\natexit.register(os.close, 1)\ndef test_it(): pass",
    "looks at the end": "import atexit, sys\nlook = lambda: print('the end', sys.argv[0], sys.modules['__main__'].__file__)\n"
    "atexit.register(look)\ndef test_it(): pass",
    "interrupts threads": "import os, signal, threading\nkill = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
    "def test_it(): threading.Timer(0.4, kill).start()",
    "spawns": "import multiprocessing as m\ndef f(q): q.put(4); exit(0)\n"
    "def test_it():\n    c = m.get_context('spawn'); q = c.Queue()\n"
    "    p = c.Process(target=f, args=(q,)); p.start(); assert q.get(timeout=20) == 4; p.join()",
    "reads": "import sys\ndef test_it(): print(sys.stdin.read())",
    "writes bytes": "import os\ndef test_it(capfd): os.write(1, b'\\xff'); assert capfd.readouterr()",
    "recurses": "def f(): f()\ndef test_it():\n    try: f()\n    except RecursionError: pass",
    "takes memory": "def test_it():\n    try: bytearray(1 << 30)\n    except MemoryError: return\n    assert False",
    "warns": "import warnings\ndef test_it(): warnings.warn('careful')",
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_it_ends_as_a_fresh_interpreter_does(ready, name):
    sandbox = await ready(test_it=ENDINGS[name])
    cold, warm = [await run(sandbox, ARGUMENTS) for run in (run_cold, run_warm)]
    assert warm.exit_code == cold.exit_code, warm.output.decode()
    assert _summary(warm.output) == _summary(cold.output)


def _summary(output):
    """The lines that say what became of the tests, without times."""
    words = ("PASSED", "FAILED", "ERROR", "the end", "late")
    return sorted(line for line in output.decode(errors="replace").split("\n") if line.startswith(words))


async def test_the_interpreter_of_the_host_cannot_be_changed(ready):
    changes = ("os.chmod('/proc/self/exe', 0)", "os.utime('/proc/self/exe', (1, 1))", "open('/proc/self/exe', 'ab')")
    body = "import os, pytest\n" + "".join(
        f"def test_{number}():\n    with pytest.raises(OSError): {change}\n" for number, change in enumerate(changes)
    )
    sandbox = await ready(test_it=body)
    interpreter = Path(sys._base_executable).resolve()
    before = interpreter.stat()
    for run in (run_cold, run_warm):
        result = await run(sandbox, ARGUMENTS)
        assert result.exit_code == 0, result.output.decode()
    after = interpreter.stat()
    assert (before.st_mode, before.st_mtime) == (after.st_mode, after.st_mtime)


async def test_what_hangs_is_ended_with_all_that_it_started(ready):
    body = "import subprocess, time\ndef test_it():\n    subprocess.Popen(['sleep', '99'])\n    time.sleep(99)"
    sandbox = await ready(test_it=body)
    result = await sandbox.run_pytest(ARGUMENTS, plugin=PLUGIN, timeout_s=1.5)
    assert result.timed_out
    left = await sandbox.exec("ls -d /proc/[0-9]* | wc -l", timeout_s=10)
    assert int(left.output) <= 4  # process 1, the shell and its two programs
