"""Warm and cold runs of a suite: one report, and the warm one counts only where pytest came to its end."""

import pytest

from turnsmith.rewards.testing import Suite, is_plain, run_cold, run_suite, run_warm
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
SUITE = Suite(PYTEST, ("test_it.py",), timeout_s=4.0)
HANGS = "import time\ndef test_leaves(): time.sleep(99)\n"
LEAVES = "import os\ndef test_leaves(): os._exit(0)\n"
ONLY_WARM = "import os\ndef test_leaves(): os.getppid() == 1 and os._exit(0)\n"


@pytest.fixture
async def sandbox(provider, tmp_path):
    return await provider.start(SandboxSpec((tmp_path,), is_for_tests=True))


async def test_warm_and_cold_report_the_same(sandbox, tmp_path):
    (tmp_path / "test_it.py").write_text(TESTS)
    cold, warm = await run_cold(sandbox, SUITE), await run_warm(sandbox, SUITE)
    assert warm.results == cold.results
    assert {result.status for result in warm.results.values()} == {"passed", "failed", "skipped", "xfailed", "error"}
    assert (warm.exit_code, warm.agrees, warm.is_finished) == (cold.exit_code, cold.agrees, cold.is_finished)


@pytest.mark.parametrize(
    ("text", "num_sandboxes", "status"),
    [
        (TESTS, 1, "missing"),
        (HANGS, 1, "missing"),
        (LEAVES, 2, "missing"),
        (ONLY_WARM, 2, "passed"),
    ],
)
async def test_a_warm_run_without_its_end_is_repeated_cold_in_another_sandbox(
    provider, tmp_path, text, num_sandboxes, status
):
    async def prepare(sandbox):
        prepared.append(sandbox)

    (tmp_path / "test_it.py").write_text(text)
    prepared = []
    report = await run_suite(provider, [tmp_path], SUITE, prepare)
    assert len({id(sandbox) for sandbox in prepared}) == num_sandboxes
    assert all(sandbox.is_stopped for sandbox in prepared)
    assert report.status("test_it.py::test_leaves") == status


@pytest.mark.parametrize(
    ("command", "plain"),
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
def test_only_a_command_without_work_for_a_shell_is_run_without_one(command, plain):
    assert is_plain(Suite(command, ())) == plain
    assert not is_plain(Suite(command, (), parser="lines"))
