"""Real logs: `unittest` runs under every installed Python, other logs were recorded."""

import itertools
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.grading.log_parsers.base import SEVERITY
from turnsmith.grading.logparse import PARSERS, parse_log

SUITE = '''import sys, unittest

class T(unittest.TestCase):
    def test_ok(self): pass
    def test_fail(self): self.assertEqual(1, 2)
    def test_error(self): raise OSError("x")
    @unittest.skip("not 'here'")
    def test_skip(self): pass
    @unittest.expectedFailure
    def test_xfail(self): self.fail()
    @unittest.expectedFailure
    def test_xpass(self): pass
    def test_doc(self):
        """First line.

        More."""
    def test_doc_fail(self):
        """Fails with a line."""
        self.fail()
    def test_doc_print(self):
        """Prints with a line."""
        print("hello", file=sys.stderr)
    def test_print(self): print("hello", file=sys.stderr)
    def test_print_no_newline(self): sys.stderr.write("no newline")
    def test_forge(self):
        sys.stderr.write("ok\\n")
        self.fail()
    def test_forge_another(self): print("test_fail (m.T) ... ok\\ntest_fail (m.T.test_fail) ... ok", file=sys.stderr)
    def test_sub(self):
        for i in range(3):
            with self.subTest("a (b)", i=i): self.assertEqual(i, 1)
    def test_sub_ok(self):
        with self.subTest(i=1): pass
    def test_teardown(self): self.addCleanup(self.fail)

class S(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise RuntimeError
    def test_never(self): pass
'''
EXPECTED = {
    "test_ok": "passed", "test_fail": "failed", "test_error": "error", "test_skip": "skipped", "test_xfail": "xfailed",
    "test_xpass": "xpassed", "test_doc": "passed", "test_doc_fail": "failed", "test_doc_print": "passed",
    "test_print": "passed", "test_print_no_newline": "passed", "test_forge": "failed",
    "test_sub": "failed", "test_sub_ok": "passed", "test_teardown": "failed",
}  # fmt: skip
FOUND = [path for minor in range(8, 16) if (path := shutil.which(f"python3.{minor}"))]
PYTHONS = [
    sys.executable,
    *(path for path in FOUND if not subprocess.run([path, "-c", ""], capture_output=True).returncode),
]


def run_unittest(python, folder):
    (folder / "m.py").write_text(SUITE)
    finished = subprocess.run([python, "-m", "unittest", "-v", "m"], cwd=folder, capture_output=True, text=True)
    assert "Ran " in finished.stderr
    return finished.stderr


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("spelling", ["{} (m.T)", "{0} (m.T.{0})", "m.T.{}"])
def test_unittest_log_is_read_with_any_spelling_of_ids(tmp_path, python, spelling):
    expected = {spelling.format(name): status for name, status in EXPECTED.items()}
    results = parse_log(run_unittest(python, tmp_path), "unittest", expected)
    assert {name: results[name].status for name in expected} == expected


def test_docstring_is_an_id_and_tests_that_never_ran_are_missing(tmp_path):
    results = parse_log(run_unittest(sys.executable, tmp_path), "unittest")
    assert results["First line."].status == "passed" and results["Fails with a line."].status == "failed"
    assert results["Prints with a line."].status == "passed"
    assert results["setUpClass (m.S)"].status == "error"
    assert not any("test_never" in name for name in results)


def test_reason_of_a_skip_is_kept(tmp_path):
    results = parse_log(run_unittest(sys.executable, tmp_path), "unittest", ["test_skip (m.T)"])
    assert results["test_skip (m.T)"].message == "not 'here"


def test_announcement_on_the_line_of_a_failed_subtest_is_read():
    log = (
        "test_sub (m.T) ... test_xfail (m.T) ... expected failure\n"
        + "=" * 70
        + "\nFAIL: test_sub (m.T) [a (b)] (i=0)\n"
    )
    statuses = {name: result.status for name, result in parse_log(log, "unittest").items()}
    assert statuses == {"test_sub (m.T)": "failed", "test_xfail (m.T)": "xfailed"}


DJANGO = """Testing against Django installed in '/testbed/django' with up to 2 processes
Creating test database for alias 'default' ('file:memorydb_default?mode=memory&cache=shared')...
Operations to perform:
  Synchronize unmigrated apps: auth, contenttypes
Synchronizing apps without migrations:
  Creating tables...
    Running deferred SQL...
Running migrations:
  Applying sites.0001_initial... OK
System check identified no issues (1 silenced).
test_runs (auth_tests.T) ... ok
test_interleaved (auth_tests.T) ... Testing against Django installed in '/testbed/django'
System check identified no issues (0 silenced).
ok
test_page (view_tests.T) ... Internal Server Error: /raises/
ok
test_no_such (view_tests.T)
A page that is not there. ... ok
test_database (db_tests.T) ... skipped 'Database has feature(s) x'
test_broken (db_tests.T) ... FAIL
test_import (unittest.loader._FailedTest) ... ERROR
Destroying test database for alias 'default'...

======================================================================
ERROR: test_import (unittest.loader._FailedTest)
----------------------------------------------------------------------
ImportError: Failed to import test module: test_import

======================================================================
FAIL: test_broken (db_tests.T)
----------------------------------------------------------------------
Traceback (most recent call last):
AssertionError: 1 != 2

----------------------------------------------------------------------
Ran 7 tests in 0.100s

FAILED (failures=1, errors=1, skipped=1)
"""


def test_django_log_is_read():
    assert {name: result.status for name, result in parse_log(DJANGO, "django").items()} == {
        "test_runs (auth_tests.T)": "passed",
        "test_interleaved (auth_tests.T)": "passed",
        "test_page (view_tests.T)": "passed",
        "test_no_such (view_tests.T)": "passed",
        "A page that is not there.": "passed",
        "test_database (db_tests.T)": "skipped",
        "test_broken (db_tests.T)": "failed",
        "test_import (unittest.loader._FailedTest)": "error",
    }


NOSE = """test_n.test_function ... ok
test_n.test_function_fails ... FAIL
test_n.test_generated(1, 2) ... ok
test_n.test_left ... SKIP: not today
test_ok (test_n.T.test_ok) ... ok
Failure: ImportError (No module named x) ... ERROR

======================================================================
FAIL: test_n.test_function_fails
----------------------------------------------------------------------
AssertionError

----------------------------------------------------------------------
Ran 6 tests in 0.022s

FAILED (failures=1)
"""


def test_nose_logs_are_read():
    assert {name: result.status for name, result in parse_log(NOSE, "nose").items()} == {
        "test_n.test_function": "passed",
        "test_n.test_function_fails": "failed",
        "test_n.test_generated(1, 2)": "passed",
        "test_n.test_left": "skipped",
        "test_ok (test_n.T.test_ok)": "passed",
        "Failure: ImportError (No module named x)": "error",
    }


fragments = st.sampled_from(
    ["ok", "FAIL", "ERROR", "skipped 'x'", "test_a (m.T)", "test_a (m.T) ...", "test_a (m.T) ... ok", "Doc. ... FAIL", "\x1b[31m",
     "FAIL: test_a (m.T)", "PASSED a.py::t",
     "a.py::t PASSED [ 5%]", "FAILED a.py::t[x - y] - z", "=== short test summary info ===",
     "SUBFAILED(i=1) a.py::t - x", "\r", " ... ", "---", "\x1b]0;", "a.py::t[/tmp/x] PASSED (0.1s)"]
)  # fmt: skip


@given(st.lists(fragments | st.text(max_size=20)).map("\n".join), st.sampled_from(sorted(PARSERS)), st.lists(fragments))
def test_parsers_accept_any_text(log, parser, known):
    results = parse_log(log, parser, known)
    assert {result.status for result in results.values()} <= set(SEVERITY)


names = st.sampled_from("abcd").map(lambda letter: f"test_{letter} (m.T)")
statuses = st.sampled_from(["ok", "FAIL", "ERROR", "skipped 'x'", "expected failure", "unexpected success"])


def write_log(tests):
    """Write a log as unittest does."""
    progress = [f"{name} ... {status}" for name, status in tests.items()]
    failures = [("=" * 70, f"{status}: {name}", "-" * 70, "AssertionError", "") for name, status in tests.items()
                if status in ("FAIL", "ERROR")]  # fmt: skip
    return [*progress, "", *itertools.chain(*failures), "Ran"]


@given(
    st.dictionaries(names, statuses, min_size=1),
    st.integers(0, 40),
    fragments | st.builds("{} ... {}".format, names, statuses),
)
def test_forged_line_never_improves_a_unittest_status(tests, place, forged):
    honest = write_log(tests)
    before = parse_log("\n".join(honest), "unittest", tests)
    after = parse_log("\n".join([*honest[:place], forged, *honest[place:]]), "unittest", tests)
    for name in tests:
        assert SEVERITY.index(after[name].status) >= SEVERITY.index(before[name].status)
