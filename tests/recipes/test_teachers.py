"""Conversations from an endpoint's run: turns that train, and trajectories that are refused."""

import hashlib

import pytest

from turnsmith.config import RunConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.imitation import read_run
from turnsmith.runs.folder import RunFolder, append_record, claim
from turnsmith.runs.journal import append_trajectory
from turnsmith.types import Audit, AuditedPatch, Grade, Isolation, Message, Outcome, StopReason, Trajectory, Turn

TIER = Isolation.NAMESPACES_USER


@pytest.fixture
def teacher(tmp_path):
    endpoint = {"kind": "openai", "openai": {"address": "http://localhost:1/v1", "model": "sage"}}
    folder = RunFolder(tmp_path / "teacher")
    claim(folder, RunConfig.model_validate({"engine": endpoint}).model_dump(mode="json"))
    return folder


def add(folder, *turns, outcome=Outcome.RESOLVED, **changes):
    number = sum(1 for _ in folder.journals())
    prompt = [Message(role="system", text="Repair."), Message(role="user", text="It is wrong.")]
    facts = {
        "trajectory_id": f"eval-base/task-{number}/0", "group_id": "g", "index": 0, "instance_id": f"task-{number}",
        "iteration": 0, "seed": 0, "form": "messages", "prompt": prompt, "turns": turns, "outcome": outcome,
        "stop_reason": StopReason.SUBMITTED, "patch": "diff", "isolation": TIER, "grade": Grade(outcome=outcome, isolation=TIER),
    }  # fmt: skip
    append_trajectory(folder.eval_trajectories("base", f"set-{number}"), Trajectory(**(facts | changes)))


def turn(text, command="ls", error=None):
    command = None if error or not text else command
    return Turn(start=0, end=0, text=text, command=command, format_error=error, observation=f"after {text}")


def read(folder):
    return list(read_run(folder, TIER))


def test_turns_with_a_command_train(teacher):
    add(teacher, turn("look"), turn("talk", error="no_command"), turn("done", "submit"))
    [conversation] = read(teacher)
    said = [(message.text, message.trains) for message in conversation.messages[2:]]
    assert said == [
        ("look", True), ("after look", False), ("talk", False), ("after talk", False), ("done", True),
    ]  # fmt: skip
    assert (conversation.resolved, conversation.created_by) == (
        True,
        f"sage at http://localhost:1/v1, in {teacher.path}",
    )


def test_a_turn_cut_at_the_context_is_left_out(teacher):
    add(teacher, turn("look"), turn(""))
    [conversation] = read(teacher)
    assert [message.text for message in conversation.messages[2:]] == ["look"]


def test_an_episode_without_turns_is_skipped(teacher):
    add(teacher, outcome=Outcome.ENGINE_FAILED, grade=None)
    add(teacher, turn(""))
    assert read(teacher) == []


def test_only_resolved_trajectories_without_a_failed_audit_are_imitated(teacher):
    add(teacher, turn("a"), outcome=Outcome.UNRESOLVED)
    add(teacher, turn("b"), stop_reason=StopReason.MAX_TURNS)
    add(teacher, turn("c"), patch="lie")
    audit = Audit(verdict="failed", reason="it lies")
    digest = hashlib.sha256(b"lie").hexdigest()
    append_record(teacher.audits, AuditedPatch(instance_id="task-2", digest=digest, audit=audit))
    assert [each.resolved for each in read(teacher)] == [False, True, False]


@pytest.mark.parametrize("where", ["isolation", "grade"])
def test_rollouts_without_isolation_are_refused_for_imitation(teacher, where):
    weak = (
        {"isolation": "none"} if where == "isolation" else {"grade": Grade(outcome=Outcome.RESOLVED, isolation="none")}
    )
    add(teacher, turn("a"), **weak)
    with pytest.raises(UsageError, match=r"isolation none.* namespaces-user"):
        read(teacher)


def test_token_trajectories_are_refused_for_imitation(teacher):
    add(teacher, turn("a"), form="tokens")
    with pytest.raises(UsageError, match="token"):
        read(teacher)
