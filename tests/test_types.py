"""The table from ending to loss, row by row: a change of any cell is a decision, and is to be made here too."""

import pytest

from turnsmith.types import OUTCOMES, Isolation, Outcome, OutcomeRule

AGENT = {"in_loss": True, "in_group": True, "retried": False, "in_evaluation": True}
INFRASTRUCTURE = {"in_loss": False, "in_group": False, "retried": True, "in_evaluation": False}
ROWS = {
    "resolved": AGENT,
    "unresolved": AGENT,
    "empty_patch": AGENT,
    "patch_invalid": AGENT,
    "tests_timed_out": AGENT,
    "tampered": AGENT,
    "not_submitted": AGENT,
    "ungraded": INFRASTRUCTURE,
    "sandbox_failed": INFRASTRUCTURE,
    "engine_failed": INFRASTRUCTURE,
    "grader_failed": INFRASTRUCTURE,
}


@pytest.mark.parametrize("outcome", ROWS)
def test_the_agent_answers_for_what_it_caused_and_the_infrastructure_leaves_no_trace(outcome):
    assert OUTCOMES[Outcome(outcome)] == OutcomeRule(**ROWS[outcome])


def test_every_ending_has_a_row():
    assert {outcome.value for outcome in OUTCOMES} == {outcome.value for outcome in Outcome} == ROWS.keys()


def test_the_tiers_of_isolation_have_an_order():
    tiers = ["none", "container-root", "container-user", "namespaces-user", "namespaces-root"]
    assert list(Isolation) == tiers
    for position, tier in enumerate(map(Isolation, tiers)):
        assert [other for other in Isolation if other.is_weaker_than(tier)] == tiers[:position]
