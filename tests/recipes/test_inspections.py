"""Audits during a run: the audited parts, and the alarm after a failed audit."""

from dataclasses import replace

from pytest import fixture, mark, warns

from turnsmith.config import AuditConfig, EvalConfig
from turnsmith.recipes import rft, rl
from turnsmith.recipes.context import Iteration
from turnsmith.recipes.evaluate import evaluate
from turnsmith.rollouts.rollout import plan_rollouts
from turnsmith.runs.folder import write_json
from turnsmith.runs.journal import read_trajectories

from .conftest import CONFIG, RFT, STAGE


class Listening:
    """A generator that keeps what it was given as inspector."""

    def __init__(self, generator):
        self.generator, self.inspectors = generator, []

    async def collect(self, *arguments, inspector=None, **options):
        self.inspectors.append(inspector)
        return await self.generator.collect(*arguments, **options)


@fixture
def listen(make_run):
    def listen(**audit):
        config = CONFIG.model_copy(update={"eval": EvalConfig(num_runs=1, k=1), "audit": AuditConfig(**audit)})
        run = make_run(config)
        return replace(run, generator=Listening(run.generator))

    return listen


@mark.parametrize(("audit", "is_audited"), [({}, True), ({"when": "all"}, True), ({"when": "off"}, False)])
async def test_training_is_audited_and_evaluation_is_not(listen, audit, is_audited):
    run = listen(**audit)
    await rft.collect(RFT, run.train_tasks, run)
    await rl.collect(Iteration(0, STAGE, run), run.train_tasks)
    await evaluate("base", run.train_tasks, run)
    assert [inspector is not None for inspector in run.generator.inspectors] == [is_audited, is_audited, False]


@mark.parametrize(("num_failed", "is_alarmed"), [(1.0, True), (0.0, False)])
async def test_a_failed_audit_raises_the_alarm_for_one_iteration(listen, folder, num_failed, is_alarmed):
    """All that is resolved is audited then, whatever the rate."""
    run = listen(rate=0.0)
    write_json(folder.iteration("one", 0).metrics, {"audit/failed": num_failed})
    await rl.collect(Iteration(1, STAGE, run), run.train_tasks)
    [played, *_] = read_trajectories(folder.iteration("one", 1).trajectories)
    [inspector] = run.generator.inspectors
    [rollout, *_] = plan_rollouts(run.train_tasks.list_trees(), prefix="t", iteration=1, num_each=1, seed_stream="")
    assert await inspector._is_chosen(played, rollout) is is_alarmed


def test_the_old_metric_of_failed_audits_is_read_with_a_warning(listen, folder):
    write_json(folder.iteration("one", 0).metrics, {"audit/convicted": 1.0})
    with warns(FutureWarning, match="audit/convicted is deprecated"):
        assert Iteration(1, STAGE, listen()).read_previous() == {"audit/failed": 1.0}
