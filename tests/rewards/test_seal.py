import pytest

from turnsmith.rewards.seal import draw_mark, read_sealed, unseal
from turnsmith.rewards.testing import Suite, run_cold, run_warm
from turnsmith.sandboxes.base import SandboxSpec

PYTEST = "python -m pytest -q -rA --durations=0 -vv"
TESTS = """import subprocess, sys, unittest

def test_inner_runs_are_not_ours(tmp_path):
    (tmp_path / "test_x.py").write_text("def test_x(): print(input())")
    inner = [sys.executable, "-m", "pytest", "-s", "-rA", str(tmp_path)]
    print(subprocess.run(inner, check=True, input="mine", text=True, capture_output=True).stdout)

class Test(unittest.TestCase):
    def test_parts(self):
        for i in range(2):
            with self.subTest(i=i):
                assert i == 0
"""


def test_only_sealed_lines_count_and_only_with_the_end():
    log = "PASSED a\nm PASSED b\nxm PASSED c\n m PASSED d\nm - m PASSED e\n"
    assert read_sealed(log + "m", "m") == "PASSED b\n- m PASSED e"
    assert read_sealed(log, "m") == ""
    assert unseal("a\nm b\nm\n", "m") == "a\nb\n"


def test_no_mark_comes_twice():
    assert len({draw_mark() for _ in range(100)}) == 100


@pytest.mark.parametrize("run", [run_cold, run_warm])
async def test_the_seal_hides_from_inner_runs_and_from_the_log(provider, tmp_path, run):
    (tmp_path / "test_a.py").write_text(TESTS)
    sandbox = await provider.start(SandboxSpec((tmp_path,), is_for_tests=True))
    report = await run(sandbox, Suite(PYTEST, ("test_a.py",)))
    assert report.results["test_a.py::test_inner_runs_are_not_ours"].status == "passed", report.log
    assert report.results["test_a.py::Test::test_parts"].status == "failed"
    assert set(report.results) == {"test_a.py::test_inner_runs_are_not_ours", "test_a.py::Test::test_parts"}
    assert report.last_line.startswith("=") and " in " in report.last_line
    assert "test_x.py::test_x" in report.log and "s call" in report.log
