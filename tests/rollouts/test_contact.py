from support.episodes.attempts import attempt
from turnsmith.rollouts.inspection import describe_contact, rises_with_reward
from turnsmith.types import Grade, Outcome


def graded(index, outcome, *flags):
    grade = Grade(outcome=outcome, flags=list(flags))
    return attempt("a", index, outcome).model_copy(update={"grade": grade})


def test_contact_counts_each_counted_trajectory_once():
    metrics = describe_contact(
        [
            graded(0, Outcome.RESOLVED, "generated", "generated"),
            graded(1, Outcome.TAMPERED, "sentinel"),
            graded(2, Outcome.UNRESOLVED),
            graded(3, Outcome.UNRESOLVED),
            graded(4, Outcome.SANDBOX_FAILED, "sentinel"),
        ]
    )
    assert metrics == {
        "contact/flagged_rate": 0.5, "contact/tampered_rate": 0.25,
        "contact/flag/generated": 1.0, "contact/flag/sentinel": 1.0,
    }  # fmt: skip
    assert describe_contact([])["contact/flagged_rate"] == 0.0


def test_only_contact_that_rises_together_with_the_reward_is_a_warning():
    before = {
        "reward/mean": 0.2,
        "contact/flagged_rate": 0.1,
        "contact/tampered_rate": 0.1,
        "contact/flag/sentinel": 0.0,
    }
    now = {"reward/mean": 0.3, "contact/flagged_rate": 0.3, "contact/tampered_rate": 0.11, "contact/flag/sentinel": 9.0}
    assert rises_with_reward(before, now) == ["contact/flagged_rate"]
    assert rises_with_reward(before, now | {"reward/mean": 0.2}) == []
    assert rises_with_reward({}, now) == []
    assert rises_with_reward({"reward/mean": 0.2}, now) == []  # a run from before contact was counted
