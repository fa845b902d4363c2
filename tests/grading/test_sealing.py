"""The plugin reports every status, for all output options and old versions."""

import os
import shutil
import subprocess
from pathlib import Path
from shlex import quote

import pytest

from turnsmith.grading.grading import Grader
from turnsmith.grading.logparse import parse_log
from turnsmith.grading.seal import Seal, read_report, read_sealed, seal
from turnsmith.grading.testing import TEST_ENV, Suite, run_cold, run_suite, run_warm
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.sandboxes.inside.toolbox import REPORT_FD
from turnsmith.synthesis.repositories import make_patch, to_tree, write_bug_layer
from turnsmith.types import Task, TaskTree

TESTS = """import pytest, unittest

def test_passes(): pass
def test_fails(): assert 1 == 2, "so\\nlong"
@pytest.mark.skip(reason="not here")
def test_skipped(): pass
def test_skips(): pytest.skip("not now")
@pytest.mark.xfail(reason="some day")
def test_expected(): assert False
@pytest.mark.xfail
def test_unexpected(): pass
@pytest.fixture
def broken(): raise OSError
def test_error(broken): pass
@pytest.fixture
def left():
    yield
    raise OSError
def test_left(left): pass
@pytest.mark.parametrize("x", ["a - b", "[c]", "u"])
def test_each(x): assert x == "u"
class TestOld(unittest.TestCase):
    def test_parts(self):
        for i in range(2):
            with self.subTest(i=i): assert i == 0
"""
ENDS = {
    "passes": "passed", "fails": "failed", "skipped": "skipped", "skips": "skipped", "expected": "xfailed",
    "unexpected": "xpassed", "error": "error", "left": "error", "each[a - b]": "failed", "each[[c]]": "failed",
    "each[u]": "passed",
}  # fmt: skip
STATUSES = {f"test_it.py::test_{name}": status for name, status in ENDS.items()} | {
    "test_it.py::TestOld::test_parts": "failed"
}
PARTS = """import unittest

class TestParts(unittest.TestCase):
    def test_it(self):
        for i in range(3):
            with self.subTest(i=i):
                if i: self.skipTest("no")
"""


@pytest.fixture
async def sandbox(provider, tmp_path):
    return await provider.start(SandboxSpec((tmp_path,), is_for_tests=True))


@pytest.mark.parametrize("run", [run_cold, run_warm])
@pytest.mark.parametrize("options", ["", "-rA", "-v -rN --tb=long", "-qq --no-summary -x --color=yes"])
async def test_report_is_independent_of_output_options(sandbox, tmp_path, options, run):
    (tmp_path / "test_it.py").write_text(TESTS)
    report = await run(sandbox, Suite(f"python -m pytest {options}", ("test_it.py",)))
    assert report.statuses == STATUSES, report.log
    assert report.sealed.statuses == STATUSES
    messages = {test.rpartition("_")[2]: result.message for test, result in report.results.items() if result.message}
    assert messages == {
        "fails": "AssertionError: so", "skipped": "Skipped: not here", "skips": "Skipped: not now", "expected": "some day",
        "error": "OSError", "left": "OSError", "each[a - b]": "AssertionError: assert 'a - b' == 'u'",
        "each[[c]]": "AssertionError: assert '[c]' == 'u'", "parts": "assert 1 == 0",
    }  # fmt: skip


@pytest.mark.parametrize("run", [run_cold, run_warm])
async def test_message_of_a_failed_import_is_its_exception(sandbox, tmp_path, run):
    (tmp_path / "test_it.py").write_text("def test_a(): pass\nimport nowhere\n")
    report = await run(sandbox, Suite("python -m pytest -q --tb=no", ("test_it.py",)))
    assert report.results["test_it.py"].message == "ModuleNotFoundError: No module named 'nowhere'"


async def test_test_with_skipped_subtests_passes_in_log_and_report(sandbox, tmp_path):
    (tmp_path / "test_it.py").write_text(PARTS)
    report = await run_warm(sandbox, Suite("pytest -v", ("test_it.py",)))
    assert report.statuses == report.sealed.statuses == {"test_it.py::TestParts::test_it": "passed"}


async def test_ids_are_relative_to_the_start_folder_of_pytest(provider, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/test_a.py").write_text("def test_a(): pass\n")
    (tmp_path / "test_b.py").write_text("def test_b(): assert 0\n")
    report = await run_suite(provider, [tmp_path], Suite("cd sub && pytest -rA", ("test_a.py", "../test_b.py")))
    assert (
        report.statuses == report.sealed.statuses == {"test_a.py::test_a": "passed", "../test_b.py::test_b": "failed"}
    )
    assert "\nPASSED test_a.py::test_a\n" in report.log and "\nFAILED ../test_b.py::test_b - " in report.log


BUGGY, FIXED = "def double(x):\n    return x\n", "def double(x):\n    return 2 * x\n"


@pytest.mark.parametrize("command", ["pytest -rA", "pytest -v", "python -m pytest", "cd . && pytest -q"])
async def test_gold_patch_is_resolved_by_commands_of_public_sets(provider, tmp_path, command):
    tests = "import shop\ndef test_two(): assert shop.double(2) == 4\ndef test_zero(): assert shop.double(0) == 0\n"
    tree = to_tree({"shop.py": BUGGY, "test_shop.py": tests})
    write_bug_layer(tmp_path / "layer", tree, {path: file.content for path, file in tree.items()})
    task = Task(
        instance_id="shop-1", repo="shop", base_commit="c", problem_statement="p", layers=["x"], test_command=command,
        FAIL_TO_PASS=["test_shop.py::test_two"], PASS_TO_PASS=["test_shop.py::test_zero"],
        patch=make_patch("shop.py", BUGGY, FIXED),
    )  # fmt: skip
    grader = Grader(provider, tests_timeout_s=60.0, num_workers=1)
    gold = await grader.grade(TaskTree(task, (tmp_path / "layer",)), task.patch)
    assert gold.resolved, gold
    assert (await grader.grade_unpatched(TaskTree(task, (tmp_path / "layer",)))).outcome == "unresolved"


AGES = [("3.6", "3.10.1"), ("3.6", "4.6.11"), ("3.7", "5.4.3"), ("3.9", "6.2.5"), ("3.10", "7.4.4"), ("3.11", "9.0.2")]


@pytest.mark.slow
@pytest.mark.parametrize(("python", "version"), AGES)
def test_old_versions_of_python_and_pytest_are_sealed(tmp_path, python, version):
    interpreter = build_environment(tmp_path / "environment", python, version)
    (tmp_path / "test_it.py").write_text(TESTS)
    report, secrets = tmp_path / "report", Seal()
    command = f"{quote(str(interpreter))} -m pytest -q --tb=no test_it.py"
    run = subprocess.run(
        ["bash", "-c", f"exec {REPORT_FD}> {quote(str(report))}; {seal(command)}"],
        cwd=tmp_path, env={**TEST_ENV, "HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        input=secrets.stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    log = run.stdout.decode()
    results = parse_log(read_sealed(log, secrets.mark), "pytest", STATUSES)
    sealed = read_report(report.read_bytes(), secrets.key)
    assert {test: result.status for test, result in results.items()} == STATUSES, log
    assert (sealed.statuses, sealed.is_finished, sealed.is_forged) == (STATUSES, True, False)
    assert results["test_it.py::test_fails"].message == "AssertionError: so"
    assert run.returncode == 1


def build_environment(folder: Path, python: str, version: str) -> Path:
    """Make an interpreter with that pytest; skip the test if this Python or pytest is not available."""
    interpreter = find_python(python)
    if interpreter is None:
        pytest.skip(f"there is no Python {python} on this machine")
    subprocess.run([interpreter, "-m", "venv", folder], check=True, capture_output=True)
    for what in ("pip==21.3.1", f"pytest=={version}"):
        install = [folder / "bin/python", "-m", "pip", "install", "--quiet", what]
        if subprocess.run(install, capture_output=True).returncode:
            pytest.skip(f"{what} could not be installed")
    return folder / "bin/python"


def find_python(version: str) -> str | None:
    """Find an interpreter on PATH or among those of pyenv."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = [shutil.which(f"python{version}"), *map(str, kept)]
    works = (
        place for place in found if place and not subprocess.run([place, "-c", ""], capture_output=True).returncode
    )
    return next(works, None)
