"""Tasks of one tree share gold-patch runs, with the same records as separate runs."""

import pytest

from turnsmith.grading.cases import Case
from turnsmith.qualification.copies import SystemFiles
from turnsmith.qualification.examination import Criteria, examine, repeat_gold
from turnsmith.qualification.gold_runs import digest_gold_runs, group_gold_runs
from turnsmith.qualification.record import Verdict
from turnsmith.synthesis.bugs import Bug
from turnsmith.synthesis.mutators import PROCEDURAL, find_mutations
from turnsmith.synthesis.repositories import make_patch, to_tree, write_candidate, write_repository
from turnsmith.types import Task, TaskTree

SOURCE = "def double(n):\n    return n * 2\n\n\ndef grow(n):\n    return n + 1\n"
TESTS = (
    "from code_ import double, grow\n\n\ndef test_double():\n    assert double(4) == 8\n\n\n"
    "def test_grow():\n    assert grow(3) == 4\n"
)
DOUBLE, GROW = "test_code.py::test_double", "test_code.py::test_grow"


@pytest.fixture
def cases(provider, tmp_path):
    """Make two bugs in one tree."""
    repository = write_repository("r", to_tree({"code_.py": SOURCE, "test_code.py": TESTS}), tmp_path)
    found = {each.function: each for each in find_mutations(SOURCE, PROCEDURAL) if each.name == "change_operator"}
    made = []
    for function, expected in (("double", [DOUBLE, GROW]), ("grow", [GROW, DOUBLE])):
        candidate = write_candidate(repository, Bug((("code_.py", found[function]),)))
        [(clean, buggy)] = candidate.bug.changes.values()
        task = Task(
            instance_id=candidate.instance_id,
            repo="r",
            base_commit=candidate.base_commit,
            problem_statement="it fails",
            FAIL_TO_PASS=expected[:1],
            PASS_TO_PASS=expected[1:],
            patch=make_patch("code_.py", buggy, clean),
            layers=["r", candidate.instance_id],
        )
        made.append(Case(TaskTree(task, candidate.layers), provider, 60.0))
    return made


def but(case, **changes):
    return case.with_task(case.task.model_copy(update=changes))


async def test_tasks_share_runs_by_fixed_tree_and_test_settings(cases):
    first, second = cases
    groups = group_gold_runs(cases)
    assert groups[first.task.instance_id] is groups[second.task.instance_id]
    assert digest_gold_runs(first) == digest_gold_runs(second) != ""
    worse = make_patch("code_.py", SOURCE.replace("n + 1", "n - 1"), SOURCE.replace("n + 1", "1 + n"))
    others = [but(second, test_command="python -m pytest -v"), but(second, patch=worse), but(second, setup=["true"])]
    assert digest_gold_runs(first) not in [digest_gold_runs(other) for other in others]
    assert digest_gold_runs(but(first, patch="no patch at all")) == ""
    assert group_gold_runs([first]) == {}


@pytest.mark.slow
async def test_shared_runs_give_the_same_records(cases):
    criteria, groups, runs = Criteria(repeats=3, tests_timeout_s=60.0), group_gold_runs(cases), []
    for case in cases:
        shared_runs = groups[case.task.instance_id]
        together = await examine(case, SystemFiles(), criteria, shared_runs)
        alone = await examine(case, SystemFiles(), criteria)
        same = {"gold_s": 0.0}
        assert together.model_copy(update=same) == alone.model_copy(update=same)
        assert together.verdict is Verdict.QUALIFIED and together.repeats == 3
        runs.append(shared_runs.runs)
    assert runs[0] is runs[1] and len(await runs[0]) == 3


@pytest.mark.slow
async def test_failing_test_prevents_sharing(cases):
    first, second = cases
    wrong = but(second, PASS_TO_PASS=[*second.task.PASS_TO_PASS, "test_code.py::test_that_is_not_there"])
    shared_runs = group_gold_runs([first, wrong])[first.task.instance_id]
    assert await shared_runs.run(first.task, lambda case: repeat_gold(case, 2)) == []
    record = await examine(first, SystemFiles(), Criteria(repeats=2, tests_timeout_s=60.0), shared_runs)
    assert record.verdict is Verdict.QUALIFIED
