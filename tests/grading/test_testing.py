"""Warm and cold runs of a suite give one report; a warm run counts only if pytest finished."""

import runpy
from dataclasses import fields, replace
from pathlib import Path

import pytest

from turnsmith.grading.log_parsers.base import TestResult
from turnsmith.grading.testing import Suite, SuiteReport, run_cold, run_suite, run_warm
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.types import PYTEST_COMMAND

SUITES = runpy.run_path(str(Path(__file__).parents[2] / "bench/suites.py"))["SUITES"]
TESTS = """import os, pytest, unittest

def test_passes(): pass
def test_fails(): assert 1 == 2
def test_skipped(): pytest.skip("not here")
@pytest.mark.xfail
def test_expected(): assert False
@pytest.fixture
def broken(): raise OSError
def test_error(broken): pass
@pytest.mark.parametrize("x", ["a - b", "[c]", "ü"])
def test_each(x): assert x == "ü"
class TestOld(unittest.TestCase):
    def test_parts(self):
        with self.subTest(i=1): self.fail()
"""
SUITE = Suite(PYTEST_COMMAND, ("test_it.py",), timeout_s=60.0)
HANGS = "import time\ndef test_leaves(): time.sleep(99)\n"
LEAVES = "import os\ndef test_leaves(): os._exit(0)\n"
ONLY_WARM = "import os\ndef test_leaves(): os.getppid() == 1 and os._exit(0)\n"


@pytest.fixture
async def sandbox(provider, tmp_path):
    return await provider.start(SandboxSpec((tmp_path,), is_for_tests=True))


async def test_warm_and_cold_runs_report_the_same(sandbox, tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    cold, warm = await run_cold(sandbox, SUITE), await run_warm(sandbox, SUITE)
    assert {result.status for result in warm.results.values()} == {"passed", "failed", "skipped", "xfailed", "error"}
    assert compared(warm) == compared(cold)
    assert warm.is_warm and not cold.is_warm


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
async def test_warm_and_cold_runs_of_odd_suites_report_the_same(provider, tmp_path, name):
    small, spec = SUITES[name], SandboxSpec((tmp_path,), is_for_tests=True)
    small.write(tmp_path)
    suite = Suite(small.command(PYTEST_COMMAND), ("test_it.py",), timeout_s=small.timeout_s)
    cold, warm = [await run(await provider.start(spec), suite) for run in (run_cold, run_warm)]
    assert compared(warm) == compared(cold), warm.log
    assert warm.is_warm != name.startswith("shadows")
    assert ends(warm) == ends(cold)


def compared(report):
    """Return the parts of a report that decide the verdict."""
    names = {field.name for field in fields(report)} - {"duration_s", "log", "is_warm"}
    return {name: getattr(report, name) for name in names}


def ends(report):
    """Marker that the suites print when they time out."""
    return sorted(line for line in report.log.split("\n") if line.startswith(("the end", "late")))


@pytest.mark.parametrize("limit", [64, 300, 1024])
async def test_report_works_with_few_descriptors(sandbox, tmp_path, limit):
    """Containers and test commands may set lower limits."""
    (tmp_path / "test_it.py").write_text(TESTS)
    report = await run_cold(sandbox, replace(SUITE, command=f"ulimit -n {limit}; {SUITE.command}"))
    assert report.sealed.is_finished and report.sealed.statuses["test_it.py::test_passes"] == "passed"


async def test_output_above_the_limit_leaves_no_result(sandbox, tmp_path):
    SUITES["prints too much after its end"].write(tmp_path)
    for run in (run_cold, run_warm):
        report = await run(sandbox, SUITE)
        assert (report.exit_code, report.results, report.is_finished) == (0, {}, False)


def test_timed_out_run_agrees_with_no_log():
    passed = {"test_it.py::test_it": TestResult("passed")}
    assert SuiteReport(passed, 0, 1.0).agrees
    assert not SuiteReport(passed, 0, 1.0, timed_out=True).agrees
    assert not SuiteReport(passed, 1, 1.0).agrees


def test_both_exit_codes_agree_with_an_unexpected_success():
    """It fails a run of unittest but not of pytest."""
    results = {"test_it.py::test_it": TestResult("passed"), "test_it.py::test_odd": TestResult("xpassed")}
    assert SuiteReport(results, 0, 1.0).agrees and SuiteReport(results, 1, 1.0).agrees
    failed = results | {"test_it.py::test_bad": TestResult("failed")}
    assert not SuiteReport(failed, 0, 1.0).agrees and SuiteReport(failed, 1, 1.0).agrees


async def test_plain_command_with_variables_and_quotes_runs_warm(provider, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src/odd.py").write_text("x = 1\n")
    (tmp_path / "test_it.py").write_text(
        "import os, odd\ndef test_a(): assert os.environ['A'] == 'b c' and odd.x\ndef test_b(): assert 0\n"
    )
    command = f"A='b c' PYTHONPATH=src:$PYTHONPATH {PYTEST_COMMAND} -k 'a and not b'"
    report = await run_suite(provider, [tmp_path], Suite(command, ("test_it.py",)))
    assert report.is_warm and report.passing == ["test_it.py::test_a"]
    by_shell = await run_suite(provider, [tmp_path], Suite(f"{command} | cat", ("test_it.py",)))
    assert not by_shell.is_warm


@pytest.mark.parametrize(
    ("text", "num_sandboxes", "status"),
    [
        (TESTS, 1, "missing"),
        (HANGS, 1, "missing"),
        (LEAVES, 2, "missing"),
        (ONLY_WARM, 2, "passed"),
    ],
)
async def test_unfinished_warm_run_is_repeated_cold_in_another_sandbox(provider, tmp_path, text, num_sandboxes, status):
    async def prepare(sandbox):
        prepared.append(sandbox)

    (tmp_path / "test_it.py").write_text(text)
    prepared = []
    suite = replace(SUITE, timeout_s=4.0) if text == HANGS else SUITE
    report = await run_suite(provider, [tmp_path], suite, prepare)
    assert len({id(sandbox) for sandbox in prepared}) == num_sandboxes
    assert all(sandbox.is_stopped for sandbox in prepared)
    assert report.status("test_it.py::test_leaves") == status
