"""Small test suites with many kinds of behaviour, for comparing cold and warm test runs.

Each suite is a folder of files; the run executes `test_it.py`. No suite is random or needs a network.
"""

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent


@dataclass(frozen=True)
class SmallSuite:
    """Files of a suite, and additions to its command."""

    files: dict[str, str]
    before: str = ""
    """Environment variables before the command."""
    after: str = ""
    """Options after the command."""
    timeout_s: float = 60.0

    def write(self, folder: Path) -> None:
        """Write the files into a folder."""
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def command(self, pytest: str) -> str:
        """Return the command of the suite, given the plain pytest command."""
        return " ".join(filter(None, (self.before, pytest, self.after)))


def _suite(test: str, *, before: str = "", after: str = "", timeout_s: float = 60.0, **others: str) -> SmallSuite:
    """Return a suite; the keyword `pkg__init` is the file `pkg/init.py`, and `pytest_ini` is `pytest.ini`."""
    files = {f"{name.replace('__', '/')}.py": text for name, text in others.items() if name != "pytest_ini"}
    if "pytest_ini" in others:
        files["pytest.ini"] = others["pytest_ini"]
    return SmallSuite(
        {name: dedent(text) for name, text in {"test_it.py": test, **files}.items()}, before, after, timeout_s
    )


PASSES = "def test_passes(): pass\n"

_ENDS = {
    "passes": _suite("def test_it(): pass"),
    "fails": _suite("def test_it(): assert 1 == 2"),
    "holds no test": _suite("x = 1"),
    "does not compile": _suite("def test_it(: pass"),
    "cannot be imported": _suite("import nowhere"),
    "raises when imported": _suite("raise ValueError('no')"),
    "exits when imported": _suite("import sys\nsys.exit(5)"),
    "exits without output": _suite("import sys\ndef test_it(): sys.exit(0)"),
    "exits at once": _suite("import os\ndef test_it(): os._exit(7)"),
    "exits at once with code 0": _suite("import os\ndef test_it(): os._exit(0)"),
    "exits by pytest.exit": _suite("import pytest\ndef test_a(): pass\ndef test_b(): pytest.exit('enough', 3)"),
    "is killed": _suite("import os\ndef test_it(): os.kill(os.getpid(), 9)"),
    "is asked to end": _suite("import os\ndef test_it(): os.kill(os.getpid(), 15)"),
    "aborts": _suite("import os\ndef test_it(): os.abort()"),
    "crashes": _suite("import ctypes\ndef test_it(): ctypes.string_at(0)"),
    "crashes in a thread": _suite("""
        import ctypes, threading
        def test_it():
            thread = threading.Thread(target=ctypes.string_at, args=(0,)); thread.start(); thread.join()
    """),
    "interrupts": _suite("def test_it(): raise KeyboardInterrupt"),
    "interrupts from a thread": _suite("""
        import os, signal, threading
        kill = lambda: os.kill(os.getpid(), signal.SIGINT)
        def test_it(): threading.Timer(0.4, kill).start()
    """),
    "hangs": _suite("import time\ndef test_it(): time.sleep(99)", timeout_s=4.0),
    "hangs in a child": _suite("import subprocess\ndef test_it(): subprocess.run(['sleep', '99'])", timeout_s=4.0),
    "hangs and ignores signals": _suite(
        """
        import signal, time
        def test_it():
            for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)
            time.sleep(99)
    """,
        timeout_s=4.0,
    ),
    "stops itself": _suite("import os, signal\ndef test_it(): os.kill(os.getpid(), signal.SIGSTOP)", timeout_s=4.0),
    "recurses": _suite("""
        def f(): f()
        def test_it():
            try: f()
            except RecursionError: pass
        def test_again(): f()
    """),
    "takes memory": _suite("""
        def test_it():
            try: bytearray(1 << 40)
            except MemoryError: return
            assert False
    """),
    "exits in a fixture": _suite("""
        import pytest, sys
        @pytest.fixture
        def leaving(): sys.exit(1)
        def test_it(leaving): pass
        def test_other(): pass
    """),
}

_TEARDOWNS = {
    "has a handler at the end": _suite("import atexit\natexit.register(print, 'the end')\ndef test_it(): pass"),
    "has a handler that exits": _suite("import atexit, os\natexit.register(os._exit, 9)\ndef test_it(): pass"),
    "has a handler that fails": _suite("import atexit\natexit.register(lambda: 1 / 0)\ndef test_it(): pass"),
    "frees an object that exits": _suite("""
        import os
        class A:
            def __del__(self, leave=os._exit): leave(9)
        a = A()
        def test_it(): pass
    """),
    "frees an object that prints": _suite("""
        class A:
            def __del__(self): print('the end of an object')
        a = A()
        a.itself = a
        def test_it(): pass
    """),
    "frees an object that fails": _suite("""
        class A:
            def __del__(self): raise ValueError('the end')
        a = A()
        def test_it(): pass
    """),
    "leaves a file open": _suite("""
        import atexit, os
        file = open('/tmp/left', 'w')
        file.write('the end')
        def test_it(): pass
    """),
    "prints by the C library": _suite("""
        import ctypes
        def test_it(): ctypes.CDLL(None).printf(b'the end of C\\n')
    """),
    "closes its output": _suite("import os, atexit\natexit.register(os.close, 1)\ndef test_it(): pass"),
    "prints after its output": _suite("""
        import os, atexit
        @atexit.register
        def end():
            os.close(1)
            print('lost')
        def test_it(): pass
    """),
    "deletes sys.stdout": _suite("import sys, atexit\natexit.register(delattr, sys, 'stdout')\ndef test_it(): pass"),
    "inspects the interpreter at exit": _suite("""
        import atexit, sys
        look = lambda: print('the end', sys.argv[0], sys.modules['__main__'].__file__)
        atexit.register(look)
        def test_it(): pass
    """),
    "leaves a thread": _suite("import threading, time\ndef test_it(): threading.Timer(0.3, print, ['late']).start()"),
    "leaves a daemon thread": _suite("""
        import threading, time
        def work():
            while True: time.sleep(0.001)
        def test_it(): threading.Thread(target=work, daemon=True).start()
    """),
    "leaves a child": _suite("import subprocess\ndef test_it(): subprocess.Popen(['sleep', '99'])"),
    "leaves a generator": _suite("""
        def generate():
            try: yield
            finally: print('the end of a generator')
        left = generate()
        next(left)
        def test_it(): pass
    """),
}

_PYTEST = {
    "skips": _suite("""
        import pytest, unittest
        def test_now(): pytest.skip('not now')
        @pytest.mark.skip(reason='never')
        def test_never(): pass
        @pytest.mark.skipif(True, reason='not here')
        def test_here(): pass
        def test_import(): pytest.importorskip('nowhere')
        def test_old(): raise unittest.SkipTest('old')
    """),
    "skips itself": _suite("import pytest\npytest.skip('all of it', allow_module_level=True)\ndef test_it(): pass"),
    "expects to fail": _suite("""
        import pytest
        @pytest.mark.xfail
        def test_fails(): assert False
        @pytest.mark.xfail
        def test_passes(): pass
        @pytest.mark.xfail(strict=True)
        def test_strict(): pass
        @pytest.mark.xfail(raises=KeyError)
        def test_other(): raise ValueError
        def test_now(): pytest.xfail('now')
    """),
    "has parameters": _suite("""
        import pytest
        @pytest.mark.parametrize('x', ['a - b', '[c]', 'ü', '', ' ', '::', 'a\\nb', '\\x1b[31m'])
        @pytest.mark.parametrize('y', [1, None])
        def test_it(x, y): assert x != '[c]'
        @pytest.mark.parametrize('x', [])
        def test_none(x): pass
    """),
    "has fixtures that fail": _suite("""
        import pytest
        @pytest.fixture
        def before(): raise OSError('before')
        @pytest.fixture
        def after():
            yield
            raise OSError('after')
        @pytest.fixture(scope='module')
        def both():
            yield 1
            assert False
        def test_before(before): pass
        def test_after(after): pass
        def test_fails_and_after(after): assert False
        def test_both(both): pass
        def test_unknown(nothing): pass
    """),
    "has old classes": _suite("""
        import unittest
        class TestOld(unittest.TestCase):
            @classmethod
            def setUpClass(cls): cls.x = 1
            def setUp(self): self.y = 2
            def tearDown(self): assert self.y == 2
            def test_passes(self): self.assertEqual(self.x, 1)
            def test_fails(self): self.assertEqual(self.x, 2)
            @unittest.skip('no')
            def test_skips(self): pass
            @unittest.expectedFailure
            def test_expected(self): self.fail()
            @unittest.expectedFailure
            def test_unexpected(self): pass
            def test_parts(self):
                for i in range(3):
                    with self.subTest(i=i): self.assertNotEqual(i, 1)
        class TestBroken(unittest.TestCase):
            @classmethod
            def setUpClass(cls): raise OSError
            def test_it(self): pass
    """),
    "has documented examples": _suite(
        "def double(x):\n    '''\n    >>> double(2)\n    5\n    '''\n", after="--doctest-modules"
    ),
    "captures": _suite("""
        import logging, os, sys
        def test_sys(capsys): print('x'); assert capsys.readouterr().out == 'x\\n'
        def test_fd(capfd): os.write(1, b'\\xff'); assert capfd.readouterr()
        def test_log(caplog): logging.getLogger('a').warning('b'); assert caplog.messages == ['b']
        def test_fails(): print('out'); print('err', file=sys.stderr); assert False
    """),
    "captures nothing": _suite("import os\ndef test_it(): print('seen'); os.write(2, b'also seen\\n')", after="-s"),
    "warns": _suite("import warnings\ndef test_it(): warnings.warn('careful')"),
    "turns warnings into errors": _suite(
        "import warnings\ndef test_it(): warnings.warn('careful')\ndef test_ok(): pass", after="-W error"
    ),
    "leaves warnings behind": _suite(
        """
        def test_file(): open('/dev/null')
        def test_next(): pass
    """,
        after="-W error",
    ),
    "fails in a thread": _suite("""
        import threading
        def test_it():
            thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()
    """),
    "has a configuration": _suite(
        "def test_a(): pass\ndef check_b(): pass",
        pytest_ini="[pytest]\npython_functions = check_*\naddopts = --strict-markers\n",
    ),
    "has a broken configuration": _suite(PASSES, pytest_ini="[pytest]\naddopts = --nothing-like-it\n"),
    "has an unknown marker": _suite("import pytest\n@pytest.mark.odd\ndef test_it(): pass", after="--strict-markers"),
    "loads a custom plugin": _suite(
        PASSES,
        before="PYTHONPATH=.:$PYTHONPATH",
        after="-p myplugin",
        myplugin="def pytest_runtest_setup(item): assert 0, 'seen'",
    ),
    "loads a missing plugin": _suite(PASSES, after="-p nowhere"),
    "disables a plugin": _suite("def test_it(capsys): pass", after="-p no:capture"),
    "selects": _suite(
        "def test_a(): pass\ndef test_b(): assert False\ndef test_ab(): pass", after="-k 'a and not (ab)'"
    ),
    "stops at the first": _suite("def test_a(): assert False\ndef test_b(): pass", after="-x"),
    "takes options from a variable": _suite("def test_a(): pass\ndef test_b(): pass", before="PYTEST_ADDOPTS='-k a'"),
    "uses temporary folders": _suite("""
        def test_it(tmp_path, tmp_path_factory):
            (tmp_path / 'a').write_text('b'); assert (tmp_path / 'a').read_text() == 'b'
            assert 'pytest-of-' in str(tmp_path)
    """),
    "patches pytest": _suite("""
        import _pytest.runner, pytest
        def test_it(monkeypatch):
            monkeypatch.setattr(_pytest.runner, 'check_interactive_exception', lambda *a: False)
            monkeypatch.setattr(pytest, 'raises', None)
        def test_lists(): assert 'pytest_runtest_protocol' in dir(_pytest.runner) and 'CallInfo' in dir(_pytest.runner)
        def test_next(): pass
    """),
    "breaks pytest": _suite(
        "import _pytest.runner\ndef test_it(): _pytest.runner.call_and_report = None\ndef test_next(): pass"
    ),
    "changes pytest reports": _suite(
        PASSES,
        conftest="""
        import pytest
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_makereport(item, call):
            outcome = yield
            outcome.get_result().sections.append(('a', 'b'))
        def pytest_collection_modifyitems(items): items.reverse()
    """,
    ),
    "has a broken conftest": _suite(PASSES, conftest="import nowhere"),
    "has a conftest that exits": _suite(PASSES, conftest="import os\nos._exit(0)"),
    "has a conftest that adds fixtures to pytest": _suite(
        "def test_it(odd): assert odd == 3",
        conftest="""
        import pytest, _pytest.nodes, _pytest.runner
        @pytest.fixture
        def odd(): return 3
        _pytest.runner.odd = odd
    """,
    ),
    "has packages": _suite(
        "from pkg.a import x\ndef test_it(): assert x == 1",
        pkg____init__="",
        pkg__a="x = 1\n",
    ),
    "shadows a module": _suite(
        "import selectors\ndef test_it(): assert selectors.ours",
        selectors="""
        ours = True
        class SelectSelector: pass
        PollSelector = SelectSelector
    """,
    ),
    "shadows pytest": _suite(PASSES, pytest="print('the end of pytest')\n"),
    "prints much": _suite(
        "def test_it():\n    for _ in range(20000): print('x' * 20)\n    assert False", after="--tb=short"
    ),
    "prints too much": _suite("def test_it():\n    for _ in range(20000): print('x' * 200)", after="-s"),
    "prints too much after its end": _suite(
        "import atexit\natexit.register(lambda: print('x' * 4000000))\ndef test_it(): pass"
    ),
    "prints a line like a summary": _suite(
        "def test_it():\n    print('PASSED test_it.py::test_other')\n    assert False", after="-s"
    ),
}

_PROCESS = {
    "forks": _suite("""
        import os
        def test_it():
            pid = os.fork()
            if not pid: os._exit(3)
            assert os.waitpid(pid, 0)[1] >> 8 == 3
    """),
    "forks and both processes continue": _suite("import os\ndef test_it(): os.fork()\ndef test_next(): pass"),
    "forks and the child exits": _suite("""
        import os, sys
        def test_it():
            if not os.fork(): sys.exit(4)
            os.wait()
    """),
    "spawns": _suite("""
        import multiprocessing as m
        def f(q): q.put(4); exit(0)
        def test_it():
            c = m.get_context('spawn'); q = c.Queue()
            p = c.Process(target=f, args=(q,)); p.start(); assert q.get(timeout=20) == 4; p.join()
    """),
    "uses a pool": _suite("""
        from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
        import multiprocessing
        def test_it():
            with ProcessPoolExecutor(2, multiprocessing.get_context('fork')) as pool: assert [*pool.map(abs, [-1, 2])] == [1, 2]
        def test_threads():
            with ThreadPoolExecutor(2) as pool: assert [*pool.map(abs, [-1, 2])] == [1, 2]
    """),
    "starts an interpreter": _suite("""
        import subprocess, sys
        def test_it(): assert subprocess.run([sys.executable, '-c', 'exit(3)']).returncode == 3
        def test_pytest(): assert subprocess.run([sys.executable, '-m', 'pytest', '--version']).returncode == 0
    """),
    "starts pytest within": _suite("""
        import pytest
        def test_it(tmp_path):
            (tmp_path / 'test_x.py').write_text('def test_x(): assert 0')
            assert pytest.main([str(tmp_path), '-q', '-p', 'no:cacheprovider']) == 1
    """),
    "tests a plugin": _suite(
        """
        def test_it(pytester):
            pytester.makepyfile('def test_x(): pass')
            pytester.runpytest_inprocess().assert_outcomes(passed=1)
    """,
        after="-p pytester",
    ),
    "runs a loop": _suite("""
        import asyncio
        async def f(): await asyncio.sleep(0.01); return 3
        def test_it(): assert asyncio.run(f()) == 3
    """),
    "changes its environment": _suite("""
        import locale, os, signal, time
        def test_it():
            os.chdir('/tmp'); os.umask(0o77); os.environ.clear(); locale.setlocale(locale.LC_ALL, 'C')
            os.environ['TZ'] = 'Asia/Tokyo'; time.tzset(); signal.signal(signal.SIGINT, signal.SIG_IGN)
        def test_next(): assert os.getcwd() == '/tmp' and os.umask(0) == 0o77 and time.tzname[0] == 'JST'
    """),
    "knows its time zone": _suite(
        """
        import time
        def test_it(): assert time.tzname == ('EST', 'EDT') and time.localtime(0).tm_hour == 19
    """,
        before="TZ=EST5EDT",
    ),
    "reads its environment": _suite(
        """
        import locale, os, random, sys
        def test_hash(): assert hash('x') == hash('x') and sys.flags.hash_randomization == 0
        def test_seed(): random.seed(1); assert random.random() == 0.13436424411240122
        def test_locale(): assert locale.getpreferredencoding() == 'UTF-8' and sys.stdout.encoding
        def test_variable(): assert os.environ['CI'] == 'yes and no' and 'PYTEST_CURRENT_TEST' in os.environ
        def test_place(): assert os.listdir('.') == ['test_it.py']
        def test_limit(): assert sys.getrecursionlimit() == 1000
    """,
        before="CI='yes and no'",
    ),
    "reads": _suite("import sys\ndef test_it(): assert sys.stdin.read() == ''", after="-s"),
    "inspects sys.modules": _suite("""
        import sys
        def test_it(): assert not {'turnsmith', 'resource', '_ctypes', 'termios', 'sqlite3'} & set(sys.modules)
        def test_main(): assert sys.modules['__main__'].__spec__.name == 'pytest.__main__'
        def test_path(): assert sys.path[0] == '/testbed' or sys.path[1] == '/testbed'
    """),
    "runs up to its limits": _suite("""
        import resource
        def test_it():
            resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
            try: files = [open('/dev/null') for _ in range(30)]
            except OSError: files = []
            assert not files
    """),
    "collects garbage": _suite("""
        import gc, weakref
        class A: pass
        def test_it():
            a = A(); a.a = a; seen = weakref.ref(a); del a; gc.collect(); assert seen() is None
        def test_thresholds(): assert gc.isenabled() and gc.get_threshold() == (700, 10, 10)
        def test_debug(): assert gc.get_debug() == 0
    """),
    "traces": _suite("""
        import sys, tracemalloc
        def test_it():
            tracemalloc.start(); x = [1] * 100; tracemalloc.stop()
            sys.settrace(lambda *a: None); sys.settrace(None); assert sys.gettrace() is None
    """),
    "reloads": _suite("""
        import importlib, json, logging, sys
        def test_it(): assert importlib.reload(json)
        def test_anew(): sys.modules.pop('logging'); import logging as other; assert other is not logging
    """),
    "empties sys.modules": _suite("import sys\ndef test_it(): sys.modules.clear()"),
}

SUITES: dict[str, SmallSuite] = {**_ENDS, **_TEARDOWNS, **_PYTEST, **_PROCESS}
