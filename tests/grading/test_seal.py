import json
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.grading.seal import Seal, SealedReport, read_report, read_sealed, unseal
from turnsmith.grading.testing import Suite, run_cold, run_warm
from turnsmith.sandboxes.base import SandboxSpec

PYTEST = "python -m pytest -q -rA --durations=0 -vv"
TESTS = """import subprocess, sys, unittest

def test_inner_runs_do_not_count(tmp_path):
    (tmp_path / "test_x.py").write_text("def test_x(): print(input())")
    inner = [sys.executable, "-m", "pytest", "-s", "-rA", str(tmp_path)]
    print(subprocess.run(inner, check=True, input="mine", text=True, capture_output=True).stdout)

class Test(unittest.TestCase):
    def test_parts(self):
        for i in range(2):
            with self.subTest(i=i):
                assert i == 0
"""


def test_only_sealed_lines_of_a_finished_run_count():
    log = "PASSED a\nm PASSED b\nxm PASSED c\n m PASSED d\nm - m PASSED e\n"
    assert read_sealed(log + "m", "m") == "PASSED b\n- m PASSED e"
    assert read_sealed(log, "m") == ""
    assert unseal("a\nm b\nm\n", "m") == "a\nb\n"


def test_secrets_are_never_repeated():
    assert len({Seal().stdin for _ in range(100)}) == 100


@pytest.mark.parametrize("run", [run_cold, run_warm])
async def test_seal_is_hidden_from_inner_runs_and_the_log(provider, tmp_path, run):
    (tmp_path / "test_a.py").write_text(TESTS)
    sandbox = await provider.start(SandboxSpec((tmp_path,), is_for_tests=True))
    report = await run(sandbox, Suite(PYTEST, ("test_a.py",)))
    assert report.results["test_a.py::test_inner_runs_do_not_count"].status == "passed", report.log
    assert report.results["test_a.py::Test::test_parts"].status == "failed"
    assert set(report.results) == {"test_a.py::test_inner_runs_do_not_count", "test_a.py::Test::test_parts"}
    assert report.last_line.startswith("=") and " in " in report.last_line
    assert report.sealed is not None and report.sealed.is_finished and not report.sealed.is_forged
    assert report.sealed.statuses == {test: result.status for test, result in report.results.items()}
    assert "test_x.py::test_x" in report.log and "s call" in report.log


KEY = "ab" * 32


def sign(*records, key=KEY):
    lines = [json.dumps([number, record]).encode() for number, record in enumerate(records)]
    return [blake2b(line, key=bytes.fromhex(key), digest_size=16).hexdigest().encode() + b" " + line for line in lines]


def test_worst_phase_of_a_test_counts():
    phases = [
        {"test": "a", "when": "call", "outcome": "passed", "xfail": False},
        {"test": "a", "when": "teardown", "outcome": "failed", "xfail": False},
        {"test": "b", "when": "call", "outcome": "skipped", "xfail": True},
        {"test": "c", "when": "call", "outcome": "failed", "xfail": False},
        {"test": "c", "when": "call", "outcome": "passed", "xfail": False},
        {"end": True},
    ]
    report = read_report(b"\n".join(sign(*phases)) + b"\n", KEY)
    assert report.statuses == {"a": "error", "b": "xfailed", "c": "failed"}
    assert report == SealedReport(report.statuses, is_finished=True, is_forged=False, is_loaded=False)


PASSED = {"test": "a", "when": "call", "outcome": "passed", "xfail": False}


@pytest.mark.parametrize("forged", [b"{}", b"", *sign(PASSED, key="cd" * 32), sign(PASSED, {"end": True})[0]])
def test_lines_after_a_forged_line_do_not_count(forged):
    first, last = sign(PASSED, {"end": True})
    report = read_report(b"\n".join([first, forged, last]) + b"\n", KEY)
    assert report.is_forged and not report.is_finished
    assert report.statuses == {"a": "passed"}


def test_incomplete_last_line_is_not_a_forgery():
    first, last = sign(PASSED, {"end": True})
    report = read_report(first + b"\n" + last[:20], KEY)
    assert not report.is_forged and not report.is_finished


@given(st.binary(max_size=200))
def test_lines_without_the_key_give_no_status(content):
    assert read_report(content, KEY).statuses == {}
