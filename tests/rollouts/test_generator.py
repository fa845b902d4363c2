from dataclasses import replace

from pytest import raises

from turnsmith.config import AgentConfig, RolloutConfig
from turnsmith.errors import TooManyFailures
from turnsmith.rollouts.generator import retry_lost
from turnsmith.rollouts.rollout import plan_rollouts
from turnsmith.runs.journal import read_trajectories
from turnsmith.types import Outcome, StopReason

from .conftest import FIX, GIVE_UP

AGENT = AgentConfig(prompts="brief", max_turns=6, max_context=4_096, max_new_tokens=256, window_lines=10)
ROLLOUTS = RolloutConfig(concurrency=4)


def plan(tree, num):
    return plan_rollouts([tree], prefix="t", iteration=0, num_each=num, seed_stream="1")


async def test_script_that_fixes_the_bug_is_resolved(make_generator, tree, journal):
    generator = make_generator(FIX, ROLLOUTS)
    [trajectory] = await generator.collect(plan(tree, 1), AGENT, journal, label="x")
    assert trajectory.outcome is Outcome.RESOLVED
    assert trajectory.stop_reason is StopReason.SUBMITTED
    assert "+    return x * 2" in trajectory.patch
    assert trajectory.num_turns == 3 and sum(trajectory.sampled) > 20


async def test_empty_patch_scores_zero(make_generator, tree, journal):
    generator = make_generator(GIVE_UP, ROLLOUTS)
    [trajectory] = await generator.collect(plan(tree, 1), AGENT, journal, label="x")
    assert trajectory.outcome is Outcome.EMPTY_PATCH


async def test_identical_patches_are_graded_once_and_marked_shared(make_generator, tree, journal):
    generator = make_generator(FIX, ROLLOUTS)
    trajectories = await generator.collect(plan(tree, 4), AGENT, journal, label="x")
    assert sorted(t.grade.shared for t in trajectories) == [False, True, True, True]
    assert all(t.resolved for t in trajectories)


async def test_rollouts_in_the_journal_are_not_repeated(make_generator, tree, journal):
    rollouts = plan(tree, 3)
    first = await make_generator(FIX, ROLLOUTS).collect(rollouts[:2], AGENT, journal, label="x")
    again = await make_generator(GIVE_UP, ROLLOUTS).collect(rollouts, AGENT, journal, label="x")
    assert again[:2] == first
    assert again[2].outcome is Outcome.EMPTY_PATCH
    assert len(list(read_trajectories(journal))) == 3


async def test_failed_sandbox_start_is_retried(make_generator, tree, journal):
    generator = make_generator(FIX, ROLLOUTS, num_failures=1)
    [trajectory] = await generator.collect(plan(tree, 1), AGENT, journal, label="x")
    assert trajectory.resolved


async def test_too_many_infrastructure_failures_stop_the_run(make_generator, tree, journal):
    generator = make_generator(FIX, ROLLOUTS, num_failures=99)
    with raises(TooManyFailures, match=r"2 of 2 rollouts were lost.*no room on this machine"):
        await generator.collect(plan(tree, 2), AGENT, journal, label="x")


async def test_unsubmitted_work_is_graded(make_generator, tree, journal):
    short = AGENT.model_copy(update={"max_turns": 2})
    [graded] = await make_generator(FIX, ROLLOUTS).collect(plan(tree, 1), short, journal, label="x")
    assert (graded.stop_reason, graded.outcome) == (StopReason.MAX_TURNS, Outcome.RESOLVED)


async def test_lost_rollouts_are_repeated_by_the_next_collection(make_generator, tree, journal):
    rollouts = plan(tree, 2)
    with raises(TooManyFailures):
        await make_generator(FIX, ROLLOUTS, num_failures=99).collect(rollouts, AGENT, journal, label="x")
    again = await make_generator(FIX, ROLLOUTS).collect(rollouts, AGENT, journal, label="x")
    assert all(trajectory.resolved for trajectory in again)


async def test_setup_runs_before_the_agent_and_its_failure_is_infrastructure(make_generator, tree, journal):
    broken = replace(tree, task=tree.task.model_copy(update={"setup": ["exit 3"]}))
    with raises(TooManyFailures, match=r"set-up command 'exit 3' of .* ended with 3"):
        await make_generator(FIX, ROLLOUTS).collect(plan(broken, 1), AGENT, journal, label="x")


def test_every_task_and_sibling_has_its_own_seed(tree):
    other = replace(tree, task=tree.task.model_copy(update={"instance_id": "another"}))
    seeds = [rollout.trajectory.seed for seed_stream in "ab" for rollout in plan_rollouts(
        [tree, other], prefix="t", iteration=0, num_each=50, seed_stream=seed_stream)]  # fmt: skip
    assert len(set(seeds)) == 200
    assert [r.trajectory.seed for r in plan(tree, 3)] == [r.trajectory.seed for r in plan(tree, 3)]


async def test_retry_budget_limits_attempts():
    """Test that two retries allow three attempts, and that the first result not lost ends them."""
    for results, num_made in {"xxxx": 3, "xxo": 3, "xo": 2, "o": 1}.items():
        made = []

        async def attempt(results=results, made=made):
            made.append(results[len(made)])
            return made[-1]

        assert await retry_lost(attempt, is_lost=lambda result: result == "x") == made[-1]
        assert len(made) == num_made
