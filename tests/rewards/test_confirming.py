"""What of the runs in a mirror counts against a patch. The runs are scripted: how each ends is the case."""

import pytest

from turnsmith.errors import GradingError
from turnsmith.rewards import trials
from turnsmith.rewards.mirror import NUM_SIDES, make_mirror
from turnsmith.rewards.reflections import CUT_SHORT, OUT_OF_TIME
from turnsmith.rewards.trials import Case, confirm
from turnsmith.types import Grade, Outcome, Task

GOLD = "diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"
SOURCE = "def test_a():\n    assert f() == 1\n\ndef test_b():\n    assert f() == 2\n"
RESOLVED = Grade(outcome=Outcome.RESOLVED)


@pytest.fixture
def case(tmp_path):
    task = Task(instance_id="f-1", repo="f", base_commit="0", problem_statement="", patch=GOLD, layers=["x"],
                FAIL_TO_PASS=["t.py::test_a"], PASS_TO_PASS=["t.py::test_b"])  # fmt: skip
    return Case(task, (tmp_path,), provider=None, tests_timeout_s=1)


@pytest.fixture
def seen():
    """Patch → the reflections in which it was run."""
    return {}


@pytest.fixture
def look(monkeypatch, case, seen):
    """Confirm a patch whose runs, and gold's, end well but for what is said of single ones by their number."""

    async def look(patch_runs, gold_runs=()):
        mirror, patches = make_mirror({"t.py": SOURCE}, ["t.py::test_a", "t.py::test_b"]), []
        seen.clear()

        async def end(case, patch, reflection):
            patches.append(patch)
            seen.setdefault(patch, []).append(reflection)
            good = {test: "failed" if test.double.is_twin else "passed" for test in reflection.tests.values()}
            bend = dict(gold_runs if patch == GOLD else patch_runs).get(patches.count(patch) - 1, dict)
            return good | bend(good)

        monkeypatch.setattr(trials, "_run_reflection", end)
        return await confirm(case, "patch", mirror, RESOLVED), patches

    return look


def fail_itself(good):
    return {test: "failed" for test in good if not test.double.is_twin}


def pass_all(good):
    return dict.fromkeys(good, "passed")


def cut_short(good):
    return dict.fromkeys(good, CUT_SHORT)


def run_out(good):
    return dict.fromkeys(good, OUT_OF_TIME)


async def test_what_ends_as_it_must_everywhere_is_confirmed_with_its_evidence(look):
    grade, patches = await look({})
    assert grade.resolved and grade.evidence["twins"] > 4
    assert (grade.evidence["mirrored"], grade.evidence["guarded"]) == (2, 1)
    assert patches == ["patch"] * NUM_SIDES[1]


async def test_one_accident_is_forgiven_where_no_twin_passed(look):
    nums_runs = set()
    for _ in range(60):
        grade, patches = await look({0: fail_itself})
        assert grade.resolved and GOLD not in patches
        nums_runs.add(len(patches))
    assert nums_runs == {NUM_SIDES[1], NUM_SIDES[1] + 1}  # a side may have twins only


async def test_two_accidents_are_none(look):
    for _ in range(20):
        grade, _ = await look(dict.fromkeys(range(NUM_SIDES[1]), fail_itself))
        assert (grade.outcome, grade.flags) == (Outcome.TAMPERED, ["mirror"])


async def test_who_fails_itself_again_and_again_is_a_liar(look):
    grade, _ = await look(dict.fromkeys(range(20), fail_itself))
    assert (grade.outcome, grade.flags) == (Outcome.TAMPERED, ["mirror"])


async def test_a_twin_that_passes_once_is_a_lie(look, seen):
    for _ in range(60):
        grade, _ = await look({0: pass_all})
        has_twin = any(test.double.is_twin for test in seen["patch"][0].tests.values())
        assert (grade.outcome, grade.flags) == ((Outcome.TAMPERED, ["twin"]) if has_twin else (Outcome.RESOLVED, []))


async def test_what_gold_does_not_pass_either_shows_nothing(look, seen):
    everywhere = dict.fromkeys(range(20), pass_all)
    grade, patches = await look(everywhere, everywhere)
    assert grade.resolved and patches.count(GOLD) >= 2
    assert all(reflection in seen["patch"] for reflection in seen[GOLD])  # the same names, and what is bent by them


async def test_gold_without_an_end_excuses_nothing_and_is_nobodys_zero(look):
    everywhere = dict.fromkeys(range(20), pass_all)
    with pytest.raises(GradingError, match="even on gold"):
        await look(everywhere, dict.fromkeys(everywhere, cut_short))
    grade, _ = await look(everywhere, {0: cut_short})
    assert grade.outcome is Outcome.TAMPERED


async def test_a_run_without_an_end_is_repeated_once(look):
    grade, patches = await look({0: cut_short, 2: run_out})
    assert grade.resolved and patches == ["patch"] * (NUM_SIDES[1] + 2)
    grade, _ = await look(dict.fromkeys(range(40), cut_short))
    assert (grade.outcome, grade.flags) == (Outcome.TAMPERED, ["mirror"])
    grade, _ = await look(dict.fromkeys(range(40), run_out))
    assert (grade.outcome, grade.flags) == (Outcome.TESTS_TIMED_OUT, [])
