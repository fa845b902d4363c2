"""Continued episodes: messages are replayed in a new sandbox, then given or sampled, and the patch is graded."""

import pytest

from turnsmith.errors import UsageError
from turnsmith.recipes.continuation import ContinuationRequest, refuse_impossible
from turnsmith.types import Outcome

from .conftest import make_attempt


class Unisolated:
    isolation = "none"


def ask(num_replayed=0, messages=("ls",)):
    trajectory = make_attempt("one/a/0", Outcome.RESOLVED, turns=2)
    return ContinuationRequest(trajectory, "stages/one/iteration-0000", num_replayed, messages, by_policy=False)


def test_the_script_is_the_replayed_and_the_given_messages():
    request = ask(1, ["first", "second"])
    assert request.script == [request.trajectory.turns[0].text, "first", "second"]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [(ask(2), "no turn 3"), (ask(-1), "no turn 0"), (ask(0, []), "no message"), (ask(), "does not isolate")],
)
def test_what_cannot_be_continued_is_refused(request_, reason):
    with pytest.raises(UsageError, match=reason):
        refuse_impossible(request_, Unisolated())
