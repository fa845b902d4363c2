"""The circuit breaker, with a real small engine: a broken machine stops the run before it teaches anything."""

from dataclasses import replace

import pytest
import torch

from turnsmith.errors import InfrastructureStorm
from turnsmith.journals import read_trajectories
from turnsmith.recipes.rl import run_stage
from turnsmith.types import Outcome

from .conftest import CONFIG, STAGE

SHORT = STAGE.model_copy(update={"iterations": 1, "max_turns": 2})
RETRIES = CONFIG.rollouts.model_copy(update={"retries": 1})


def break_sandboxes(workshop):
    """No sandbox can be set up."""
    broken = [task.model_copy(update={"setup": ["exit 3"]}) for task in workshop.train_tasks.tasks]
    return replace(workshop.train_tasks, tasks=broken), Outcome.SANDBOX_FAILED


def break_engine(workshop):
    workshop.policy.engine.close()
    return workshop.train_tasks, Outcome.ENGINE_FAILED


@pytest.mark.parametrize("break_down", [break_sandboxes, break_engine])
async def test_a_broken_machine_stops_the_run_and_leaves_the_weights_alone(make_workshop, folder, break_down):
    workshop = make_workshop(CONFIG.model_copy(update={"rollouts": RETRIES}))
    before = [parameter.clone() for parameter in workshop.policy.engine._model.parameters()]
    tasks, outcome = break_down(workshop)
    with pytest.raises(InfrastructureStorm, match=r"4 of 4 rollouts were lost.*repair it, then resume"):
        await run_stage(SHORT, tasks, workshop)
    assert {t.outcome for t in read_trajectories(folder.trajectories("one", 0))} == {outcome}
    assert all(torch.equal(a, b) for a, b in zip(before, workshop.policy.engine._model.parameters(), strict=True))
    assert folder.next_iteration("one") == 0


async def test_after_the_repair_the_run_goes_on_with_what_was_lost(make_workshop, folder):
    workshop = make_workshop(CONFIG.model_copy(update={"rollouts": RETRIES}))
    broken, _ = break_sandboxes(workshop)
    with pytest.raises(InfrastructureStorm):
        await run_stage(SHORT, broken, workshop)
    again = make_workshop()
    await run_stage(SHORT, again.train_tasks, again)
    last = {t.trajectory_id: t.outcome for t in read_trajectories(folder.trajectories("one", 0))}
    assert len(last) == 4 and Outcome.SANDBOX_FAILED not in last.values()
    assert folder.next_iteration("one") == 1
