"""Comparison with the package swebench: equal statuses and verdicts for each log."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.grading.runner_logs import FAIL_ONLY, LAYOUTS, make_log
from support.grading.swebench_package import find_package
from turnsmith.grading.judging import judge
from turnsmith.grading.logparse import parse_log
from turnsmith.grading.rules import find_status
from turnsmith.grading.testing import SuiteReport
from turnsmith.types import Task

pytestmark = pytest.mark.slow
WORDS = {"PASSED": "passed", "FAILED": "failed", "ERROR": "error", "SKIPPED": "skipped", "XFAIL": "xfailed"}
NAMES = dict.fromkeys(("instance_id", "repo", "base_commit", "problem_statement", "patch"), "x")
NUM_SEEDS = 10
"""Number of logs of each parser."""


@pytest.fixture(scope="module")
def refer(tmp_path_factory):
    """Return a function from cases to swebench's results; skip the test if swebench is not available."""
    place = find_package(tmp_path_factory.mktemp("reference"))

    def ask(cases):
        command = [sys.executable, Path(__file__).parents[1] / "support/grading/swebench_verdicts.py", place]
        run = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    return ask


def to_case(parser, text, exit_code, fail_to_pass, pass_to_pass):
    eval_type = "fail_only" if parser in FAIL_ONLY else "pass_and_fail"
    return {
        "log_parser": parser, "eval_type": eval_type, "text": text, "exit_code": exit_code, "FAIL_TO_PASS": fail_to_pass,
        "PASS_TO_PASS": pass_to_pass,
    }  # fmt: skip


def read(case):
    """Return the statuses and the verdict of Turnsmith."""
    expected = {name: case[name] for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    rules = "swe-bench-fail-only" if case["eval_type"] == "fail_only" else "swe-bench"
    task = Task(**NAMES, **expected, layers=["x"], status_rules=rules)
    known = {*task.FAIL_TO_PASS, *task.PASS_TO_PASS}
    results = parse_log(case["text"], case["log_parser"], known)
    report = SuiteReport(results, case["exit_code"], 0.1, log=case["text"])
    return report.statuses, judge(task, report).resolved


@pytest.mark.parametrize("parser", LAYOUTS)
def test_statuses_and_verdicts_equal_swebench(refer, parser):
    logs = [make_log(parser, seed) for seed in range(NUM_SEEDS)]
    cases = [to_case(parser, log.text, log.exit_code, log.fail_to_pass, log.pass_to_pass) for log in logs]
    answers = refer(cases)
    for case, answer in zip(cases, answers, strict=True):
        statuses, resolved = read(case)
        seen = {name: find_status(name, statuses) for name in answer["statuses"]}
        assert seen == {name: WORDS[word] for name, word in answer["statuses"].items()}, case
        assert resolved is answer["resolved"], (case, answer)
    assert len({answer["resolved"] for answer in answers}) == 2, "both verdicts must occur"


SUITE = """import pytest, unittest

def test_passes(): pass
def test_fails(): assert 1 == 2
@pytest.mark.skip(reason="never")
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert False
@pytest.fixture
def broken(): raise OSError
def test_error(broken): pass
@pytest.mark.parametrize("x", ["one", "two words", "/tmp/a/b", "a - b"])
def test_each(x): assert x
class TestOld(unittest.TestCase):
    def test_one(self): pass
    def test_two(self):
        '''Two is not three.'''
        self.assertEqual(2, 3)
    @unittest.skip("never")
    def test_three(self): pass
"""
UNITTEST = ["unittest", "-v", "test_it.TestOld"]
RUNS = {
    ("parse_log_pytest", "pytest -rA"): [],
    ("parse_log_pytest", "pytest -rA --tb=no -q"): [],
    ("parse_log_pytest_options", "pytest -rA"): [],
    ("parse_log_pylint", "pytest -rA -v"): [],
    ("parse_log_matplotlib", "pytest -rA --tb=short"): [],
    ("parse_log_seaborn", "pytest -v --tb=no"): [],
    ("parse_log_django", "unittest -v"): UNITTEST,
}
"""Parser and command → arguments of the interpreter, if it does not run pytest on the file."""


@pytest.mark.parametrize(("parser", "command"), RUNS)
def test_real_runs_have_statuses_and_verdicts_of_swebench(refer, tmp_path, parser, command):
    (tmp_path / "test_it.py").write_text(SUITE)
    module, *options = command.split()
    arguments = RUNS[parser, command] or [module, "-p", "no:cacheprovider", *options, "test_it.py"]
    run = subprocess.run([sys.executable, "-m", *arguments], cwd=tmp_path, capture_output=True, text=True)
    text, code = run.stdout + run.stderr, run.returncode
    (answer,) = refer([to_case(parser, text, code, [], [])])
    seen = {name: word for name, word in answer["statuses"].items() if command != "unittest -v" or " " in name}
    passed = [
        name for name, word in seen.items() if word == "PASSED"
    ]  # `FAIL: test_x` at the end gives no id of unittest's
    assert passed, text
    cases = [to_case(parser, text, code, passed[:1], tests) for tests in (passed[1:], [*passed[1:], "nowhere"])]
    for case, told_by_reference in zip(cases, refer(cases), strict=True):
        statuses, resolved = read(case)
        assert resolved is told_by_reference["resolved"]
        assert {name: find_status(name, statuses) for name in seen} == {name: WORDS[seen[name]] for name in seen}, text


PASSED = "PASSED a.py::t\n"
DIFFERENCES = {
    "a test listed twice": ("parse_log_pytest", "FAILED a.py::t - no\n" + PASSED + "FAILED a.py::u\n", 1, True),
    "a pass that the tests printed": (
        "parse_log_django",
        "test_t (m.T) ... FAIL\ntest_t (m.T) ... ok\ntest_u (m.T) ... FAIL\n",
        1,
        True,
    ),
    "a name in two files": ("parse_log_sympy", "test_t F\ntest_t ok\ntest_u F\n", 1, True),
    "a skip of minitest": ("parse_log_minitest", "T: should t. = 0.00 s = S\n", 0, True),
    "a failure elsewhere, and the exit code of a success": ("parse_log_pytest", PASSED + "FAILED a.py::u\n", 0, True),
    "colours": ("parse_log_pytest", "\x1b[32mPASSED\x1b[0m a.py::t\n", 0, False),
    "an expected failure with its reason": ("parse_log_pytest_v2", "XFAIL a.py::t - some day\n", 0, False),
}
"""Log, exit code, and True if swebench resolves it."""
WANTED = {
    "parse_log_django": "test_t (m.T)", "parse_log_sympy": "test_t", "parse_log_minitest": "T: should t",
}  # fmt: skip
OURS = {"colours"}
"""Logs that only Turnsmith resolves; an agent cannot print any of them."""


@pytest.mark.parametrize("what", DIFFERENCES)
def test_differences_from_swebench_are_intended(refer, what):
    parser, text, exit_code, resolved = DIFFERENCES[what]
    case = to_case(parser, text, exit_code, [WANTED.get(parser, "a.py::t")], [])
    assert refer([case])[0]["resolved"] is resolved
    assert read(case)[1] is (what in OURS)


def test_number_of_logs_equals_the_documented_one():
    assert len(LAYOUTS) >= 10 and len(LAYOUTS) * NUM_SEEDS >= 200
