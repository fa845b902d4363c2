import pytest

from turnsmith.grading.grading import Grader
from turnsmith.qualification.soundness import Check, check_task
from turnsmith.types import Outcome, Task, TaskTree


@pytest.mark.parametrize("gold", Outcome)
@pytest.mark.parametrize("untouched", Outcome)
def test_task_is_sound_if_only_the_gold_patch_resolves_it(gold, untouched):
    check = Check("calc-1", gold, "", untouched, "", 0.1)
    assert check.is_sound is ((gold, untouched) == (Outcome.RESOLVED, Outcome.UNRESOLVED))
    assert bool(check.fault) is not check.is_sound


async def test_task_that_passes_untouched_is_not_sound(provider, tmp_path):
    (tmp_path / "calc.py").write_text("one = 1\n")
    (tmp_path / "test_calc.py").write_text("from calc import one\n\n\ndef test_one():\n    assert one == 1\n")
    task = Task(
        instance_id="calc-1",
        repo="calc",
        base_commit="0" * 40,
        problem_statement="one is wrong",
        FAIL_TO_PASS=["test_calc.py::test_one"],
        PASS_TO_PASS=[],
        patch="diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1,2 @@\n one = 1\n+two = 2\n",
        layers=["tree"],
    )
    check = await check_task(TaskTree(task, (tmp_path,)), Grader(provider, tests_timeout_s=20, num_workers=1))
    assert not check.is_sound
    assert check.fault.startswith("untouched tree resolved")
