"""Table of runs and their verdicts."""

import pytest

from turnsmith.grading.cases import limit_tests
from turnsmith.qualification.record import Passes, Qualification, Verdict, decide, qualified
from turnsmith.types import Grade, Outcome, Task

TASK = Task(
    instance_id="t", repo="r", base_commit="c", problem_statement="p", patch="", layers=["l"],
    FAIL_TO_PASS=["f1", "f2"], PASS_TO_PASS=["p1", "p2"],
)  # fmt: skip
ALL = "f1 f2 p1 p2"


def gold(passing, is_resolved=None):
    statuses = {test: "passed" if test in passing.split() else "failed" for test in ALL.split()}
    resolved = passing == ALL if is_resolved is None else is_resolved
    return Grade(outcome=Outcome.RESOLVED if resolved else Outcome.TAMPERED, statuses=statuses, detail="tampered")


def base(passing="p1 p2"):
    return Grade(outcome=Outcome.UNRESOLVED, statuses=gold(passing).statuses)


LATE = Grade(outcome=Outcome.TESTS_TIMED_OUT)
GOOD, UNTOUCHED = [gold(ALL)] * 3, [base()] * 3


@pytest.mark.parametrize(
    ("untouched", "golden", "verdict", "quarantined"),
    [
        (UNTOUCHED, GOOD, Verdict.QUALIFIED, ()),
        (UNTOUCHED, [gold(ALL), gold(ALL), gold("f1 f2 p1")], Verdict.QUALIFIED, ("p2",)),
        ([base(), base("p1"), base()], GOOD, Verdict.QUALIFIED, ("p2",)),
        ([base("p1")] * 3, GOOD, Verdict.QUALIFIED, ()),
        (UNTOUCHED, [gold(ALL), gold("f1 f2 p1"), gold("f1 f2 p2")], Verdict.FLAKY, ("p1", "p2")),
        (UNTOUCHED, [gold(ALL), gold(ALL), gold("f1 p1 p2")], Verdict.FLAKY, ()),
        (UNTOUCHED, [gold(ALL), LATE, gold(ALL)], Verdict.FLAKY, ()),
        ([base(), base("f1 p1 p2"), base()], GOOD, Verdict.FLAKY, ()),
        (UNTOUCHED, [gold("f1 p1 p2")] * 3, Verdict.GOLD_FAILS, ()),
        (UNTOUCHED, [gold("f1 f2 p1")] * 3, Verdict.GOLD_FAILS, ()),
        (UNTOUCHED, [gold(ALL), gold(ALL, False), gold(ALL, False)], Verdict.GOLD_FAILS, ()),
        (UNTOUCHED, [gold(ALL), gold(ALL), gold(ALL, False)], Verdict.FLAKY, ()),
        ([base("f2 p1 p2")] * 3, GOOD, Verdict.NO_OP_PASSES, ()),
        (UNTOUCHED, [LATE] * 3, Verdict.TOO_SLOW, ()),
        ([LATE] * 3, GOOD, Verdict.QUALIFIED, ()),
    ],
)
def test_verdict_follows_from_the_runs(untouched, golden, verdict, quarantined):
    decision = decide(TASK, untouched, golden)
    assert (decision.verdict, decision.quarantined) == (verdict, quarantined)
    assert bool(decision.detail) is (verdict is not Verdict.QUALIFIED or bool(quarantined))


def test_missing_names_matter_only_for_a_qualified_task():
    assert decide(TASK, UNTOUCHED, GOOD, ["refund"]).verdict is Verdict.NAMES_MISSING
    assert decide(TASK, UNTOUCHED, [gold("f1 p1 p2")] * 3, ["refund"]).verdict is Verdict.GOLD_FAILS


def test_every_verdict_has_a_meaning():
    assert all(verdict.meaning for verdict in Verdict) and len({verdict.meaning for verdict in Verdict}) == len(Verdict)
    assert [verdict for verdict in Verdict if not verdict.is_final] == [Verdict.INFRASTRUCTURE]


def test_quarantined_test_leaves_pass_to_pass():
    record = Qualification(
        instance_id="t", key="k", verdict=Verdict.QUALIFIED, quarantined=["p2"], passes={"p2": Passes(base=5, gold=4)}
    )
    narrowed = qualified(TASK, record)
    assert narrowed.PASS_TO_PASS == ["p1"] and narrowed.meta["quarantined"] == ["p2"]
    assert qualified(TASK, record.model_copy(update={"quarantined": []})) is TASK


def test_qualified_task_has_its_gold_time():
    record = Qualification(instance_id="t", key="k", verdict=Verdict.QUALIFIED, gold_s=70.0)
    assert limit_tests(TASK, 1_800.0) == 1_800.0 and limit_tests(qualified(TASK, record), 1_800.0) == 700.0
