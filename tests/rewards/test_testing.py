"""Warm and cold runs of a suite: one report, and the warm one counts only where pytest came to its end."""

import pytest

from turnsmith.rewards.testing import PLAIN_PYTEST, Suite, run_cold, run_warm, run_warm_or_cold
from turnsmith.sandboxes.base import SandboxSpec
from turnsmith.types import PYTEST

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
LEAVES = "import os\ndef test_leaves(): os._exit(0)\n"
ONLY_WARM = "import os, sys\ndef test_leaves(): sys.flags.no_site and os._exit(0)\n"


@pytest.fixture
def judge(provider, tmp_path):
    """Runs a suite over one file in a sandbox of its own, and writes down how."""

    async def judge(run):
        judge.runs.append(run)
        sandbox = await provider.start(SandboxSpec((tmp_path,), is_for_tests=True))
        return await run(sandbox, Suite(PYTEST, ("test_it.py",)))

    judge.runs = []
    return judge


async def test_warm_and_cold_report_the_same(judge, tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    cold, warm = await judge(run_cold), await judge(run_warm)
    assert warm.results == cold.results
    assert {result.status for result in warm.results.values()} == {"passed", "failed", "skipped", "xfailed", "error"}
    assert (warm.exit_code, warm.agrees) == (cold.exit_code, cold.agrees)


@pytest.mark.parametrize(
    ("text", "runs", "status"),
    [
        (TESTS, [run_warm], "missing"),
        (LEAVES, [run_warm, run_cold], "missing"),
        (ONLY_WARM, [run_warm, run_cold], "passed"),
    ],
)
async def test_a_warm_run_without_its_end_is_repeated_cold_in_another_sandbox(judge, tmp_path, text, runs, status):
    (tmp_path / "test_it.py").write_text(text)
    report = await run_warm_or_cold(judge)
    assert judge.runs == runs
    assert report.status("test_it.py::test_leaves") == status


@pytest.mark.parametrize(
    ("command", "is_plain"),
    [
        (PYTEST, True),
        ("python -m pytest", True),
        ("python -m pytest --durations=0 tests/test_a.py::Test::test_b", True),
        ("cd src && python -m pytest", False),
        ("python -m pytest -k 'a or b'", False),
        ("python -m pytest $FLAGS", False),
        ("python -m pytest tests/*.py", False),
        ("python -m pytest; true", False),
        ("python3 -m pytest", False),
        ("pytest", False),
    ],
)
def test_only_a_command_without_work_for_a_shell_is_run_without_one(command, is_plain):
    assert bool(PLAIN_PYTEST.fullmatch(command)) == is_plain
