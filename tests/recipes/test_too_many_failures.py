"""Circuit breaker with a small real engine: infrastructure failures stop the run before training."""

from dataclasses import replace

import pytest
import torch

from turnsmith.errors import TooManyFailures
from turnsmith.recipes.rl import run_stage
from turnsmith.runs.journal import read_trajectories
from turnsmith.types import Outcome

from .conftest import STAGE

SHORT = STAGE.model_copy(update={"iterations": 1, "max_turns": 2})


def break_sandboxes(run):
    """No sandbox can be set up."""
    broken = [task.model_copy(update={"setup": ["exit 3"]}) for task in run.train_tasks.tasks]
    return replace(run.train_tasks, tasks=broken), Outcome.SANDBOX_FAILED


def break_engine(run):
    run.policy.engine.close()
    return run.train_tasks, Outcome.ENGINE_FAILED


@pytest.mark.parametrize("break_down", [break_sandboxes, break_engine])
async def test_infrastructure_failures_stop_the_run_before_weights_change(make_run, folder, break_down):
    run = make_run()
    before = [parameter.clone() for parameter in run.policy.engine._model.parameters()]
    tasks, outcome = break_down(run)
    with pytest.raises(TooManyFailures, match=r"4 of 4 rollouts.* resume"):
        await run_stage(SHORT, tasks, run)
    assert {t.outcome for t in read_trajectories(folder.iteration("one", 0).trajectories)} == {outcome}
    assert all(torch.equal(a, b) for a, b in zip(before, run.policy.engine._model.parameters(), strict=True))
    assert folder.next_iteration("one") == 0


async def test_a_resumed_run_repeats_the_lost_rollouts(make_run, folder):
    run = make_run()
    broken, _ = break_sandboxes(run)
    with pytest.raises(TooManyFailures):
        await run_stage(SHORT, broken, run)
    again = make_run()
    await run_stage(SHORT, again.train_tasks, again)
    last = {t.trajectory_id: t.outcome for t in read_trajectories(folder.iteration("one", 0).trajectories)}
    assert len(last) == 4 and Outcome.SANDBOX_FAILED not in last.values()
    assert folder.next_iteration("one") == 1
