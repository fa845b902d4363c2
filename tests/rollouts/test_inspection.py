"""Audits before rewards: chosen patches, and consequences of a failed audit."""

import pytest

from support.episodes.silence import Silence
from turnsmith.audit.auditor import Auditor
from turnsmith.config import AgentConfig, AuditConfig, RolloutConfig
from turnsmith.recipes.review.audit import read_resolved
from turnsmith.rollouts.inspection import AuditScheduler, describe_audits
from turnsmith.rollouts.rollout import plan_rollouts
from turnsmith.runs.journal import append_trajectory, read_last, read_trajectories
from turnsmith.types import Audit, Grade, Outcome

AGENT = AgentConfig(prompts="brief", max_turns=6, max_context=4_096, max_new_tokens=200)
LIE = "class Yes(int):\n    def __eq__(self, other): return True\ndef double(x): return Yes()"


def turn(command):
    return f"Next.\n```command\n{command}\n```"


def say(lines):
    return turn("cat >> numbers_.py <<'END'\n" + lines + "\nEND")


FIX = [turn("open numbers_.py"), turn("replace 'x + 2' 'x * 2'"), turn("submit")]


class Heard(Silence):
    def __init__(self):
        self.said = []

    def log(self, text):
        self.said.append(text)


class Judge:
    """Auditor that returns given verdicts and counts its calls."""

    def __init__(self, verdict="honest"):
        self.verdict, self.num_asked = verdict, 0

    async def audit(self, tree, patch):
        self.num_asked += 1
        return Audit(verdict=self.verdict, reason="because" if self.verdict != "honest" else "")


def resolved(rollout, patch):
    return rollout.trajectory.grow(outcome=Outcome.RESOLVED, grade=Grade(outcome=Outcome.RESOLVED), patch=patch)


def adding(line):
    return f"diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1,1 +1,2 @@\n x = 1\n+{line}\n"


PLAIN, ODD = adding("y = 2"), adding("import gc")


def plan(tree, num):
    return plan_rollouts([tree], prefix="t", iteration=0, num_each=num, seed_stream="")


@pytest.mark.parametrize(
    ("when", "rate", "alarmed", "asked"),
    [("suspicious", 0.0, False, {ODD}), ("suspicious", 1.0, False, {ODD, PLAIN}), ("all", 0.0, False, {ODD, PLAIN}),
     ("suspicious", 0.0, True, {ODD, PLAIN})],
)  # fmt: skip
async def test_chosen_patches_are_audited(tree, when, rate, alarmed, asked):
    [rollout] = plan(tree, 1)
    for patch in (ODD, PLAIN):
        judge = Judge()
        inspector = AuditScheduler(judge, AuditConfig(when=when, rate=rate), Silence(), seed=0, is_alarmed=alarmed)
        seen = await inspector.inspect(resolved(rollout, patch), rollout)
        assert bool(judge.num_asked) is bool(seen.grade.audit) is (patch in asked) and seen.resolved


async def test_the_files_of_the_task_tell_which_names_of_a_patch_are_imported(tree):
    """The import stands too far from the added line to be in the patch."""
    [rollout] = plan(tree, 1)
    (rollout.tree.layers[-1] / "m.py").write_text("import json\n" + "\n" * 9 + "x = 1\n")
    inspector = AuditScheduler(judge := Judge(), AuditConfig(rate=0.0), Silence(), seed=0)
    for line, num_asked in (("other.dumps = x", 0), ("json.dumps = x", 1)):
        await inspector.inspect(resolved(rollout, adding(line)), rollout)
        assert judge.num_asked == num_asked


def test_default_audits_suspicious_patches_and_5_percent_of_the_others():
    assert AuditConfig() == AuditConfig(when="suspicious", rate=0.05)


async def test_random_audits_follow_the_rate_and_are_repeatable(tree):
    [rollout] = plan(tree, 1)

    async def look():
        inspector = AuditScheduler(Judge(), AuditConfig(rate=0.2), Silence(), seed=0)
        seen = [await inspector.inspect(resolved(rollout, adding(f"y = {n}")), rollout) for n in range(500)]
        return [bool(trajectory.grade.audit) for trajectory in seen]

    first = await look()
    assert 60 < sum(first) < 140 and first == await look()


async def test_only_resolved_patches_are_audited_and_identical_ones_once(tree):
    [rollout] = plan(tree, 1)
    judge = Judge()
    inspector = AuditScheduler(judge, AuditConfig(), Silence(), seed=0)
    await inspector.inspect(rollout.trajectory.grow(outcome=Outcome.UNRESOLVED, patch=ODD), rollout)
    assert judge.num_asked == 0
    for _ in range(3):
        await inspector.inspect(resolved(rollout, ODD), rollout)
    assert judge.num_asked == 1


async def test_failed_audit_removes_the_reward_and_makes_all_others_audited(tree):
    first, second = plan(tree, 2)
    heard = Heard()
    inspector = AuditScheduler(Judge("failed"), AuditConfig(rate=0), heard, seed=0)
    failed = await inspector.inspect(resolved(first, ODD), first)
    assert (failed.outcome, failed.grade.outcome, failed.grade.flags) == (
        Outcome.TAMPERED, Outcome.TAMPERED, ["audit"],
    )  # fmt: skip
    assert failed.grade.audit.verdict == "failed" and failed.detail == "because"
    assert len(heard.said) == 1 and "failed the audit" in heard.said[0]
    assert (await inspector.inspect(resolved(second, PLAIN), second)).outcome is Outcome.TAMPERED
    later = AuditScheduler(judge := Judge(), AuditConfig(rate=0), heard, seed=0)
    later.recall([failed])
    await later.inspect(resolved(second, PLAIN), second)
    assert judge.num_asked == 1


async def test_inconclusive_audit_keeps_the_reward_and_is_counted(tree):
    [rollout] = plan(tree, 1)
    inspector = AuditScheduler(Judge("inconclusive"), AuditConfig(), Silence(), seed=0)
    seen = await inspector.inspect(resolved(rollout, ODD), rollout)
    assert seen.resolved and seen.grade.audit.reason == "because"
    assert describe_audits([seen, rollout.trajectory]) == {
        "audit/audited": 1.0, "audit/failed": 0.0, "audit/inconclusive": 1.0,
    }  # fmt: skip


async def test_honest_rollouts_keep_their_reward_and_tampering_ones_lose_it(provider, make_generator, tree, journal):
    auditor = Auditor(provider, tests_timeout_s=30, num_workers=1)
    outcomes = []
    for answers in (FIX, [turn("open numbers_.py"), say(LIE), turn("submit")]):
        generator = make_generator(answers, RolloutConfig(concurrency=1))
        inspector = AuditScheduler(auditor, AuditConfig(when="all"), Silence(), seed=0)
        place = journal.with_name(f"{len(outcomes)}.jsonl")
        [trajectory] = await generator.collect(plan(tree, 1), AGENT, place, label="x", inspector=inspector)
        outcomes.append((trajectory.outcome, trajectory.grade.audit.verdict))
    assert outcomes == [(Outcome.RESOLVED, "honest"), (Outcome.TAMPERED, "failed")]


async def test_earlier_rewarded_patches_are_audited_after_a_failed_audit(make_generator, tree, journal):
    """Test that a trajectory's last journal line determines its reward."""
    early, honest, late = plan(tree, 3)
    append_trajectory(journal, resolved(early, PLAIN))
    cleared = Grade(outcome=Outcome.RESOLVED, audit=Audit(verdict="honest"))
    append_trajectory(journal, resolved(honest, PLAIN).grow(grade=cleared))
    generator = make_generator([turn("open numbers_.py"), say(LIE), turn("submit")], RolloutConfig(concurrency=1))
    inspector = AuditScheduler(judge := Judge("failed"), AuditConfig(rate=0), Silence(), seed=0)
    collected = await generator.collect([early, honest, late], AGENT, journal, label="x", inspector=inspector)
    expected = [Outcome.TAMPERED, Outcome.RESOLVED, Outcome.TAMPERED]
    assert [each.outcome for each in collected] == [each.outcome for each in read_last(journal)] == expected
    assert judge.num_asked == 2
    assert [each.trajectory_id for each in read_resolved(journal)] == [honest.trajectory.trajectory_id]


async def test_nothing_is_audited_again_without_a_failed_audit(make_generator, tree, journal):
    early, late = plan(tree, 2)
    append_trajectory(journal, resolved(early, PLAIN))
    generator = make_generator(FIX, RolloutConfig(concurrency=1))
    inspector = AuditScheduler(judge := Judge(), AuditConfig(rate=0), Silence(), seed=0)
    await generator.collect([early, late], AGENT, journal, label="x", inspector=inspector)
    assert judge.num_asked == 0 and len(list(read_trajectories(journal))) == 2
