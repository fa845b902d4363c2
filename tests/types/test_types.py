"""Rules of all outcomes; any change of the table needs a change here."""

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
def test_outcome_rules_of_agent_and_infrastructure(outcome):
    assert OUTCOMES[Outcome(outcome)] == OutcomeRule(**ROWS[outcome])


def test_every_outcome_has_a_rule():
    assert {outcome.value for outcome in OUTCOMES} == {outcome.value for outcome in Outcome} == ROWS.keys()


def test_isolation_tiers_are_ordered():
    tiers = ["none", "container-root", "container-user", "namespaces-user", "namespaces-root"]
    assert list(Isolation) == tiers
    for position, tier in enumerate(map(Isolation, tiers)):
        assert [other for other in Isolation if other.is_weaker_than(tier)] == tiers[:position]
