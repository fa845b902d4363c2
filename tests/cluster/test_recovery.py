"""Ranks, or Ray itself, that are killed at any point of a step or during a save: the losses stay as without the fault."""

import numpy as np
import pytest

from support.cluster.faults import NUM_STEPS, FragileTraining
from support.cluster.fragile import DURING_SAVE, POINTS
from turnsmith.errors import RanksLost, TrainingError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def shared(local_ray, tmp_path_factory):
    training = FragileTraining(tmp_path_factory.mktemp("recovery"))
    yield training
    training.trainer.close()


@pytest.fixture
async def training(shared):
    """Training with the initial weights and optimizer."""
    await shared.trainer.load(shared.initial)
    return shared


@pytest.mark.parametrize("point", POINTS)
async def test_a_rank_killed_in_a_step_changes_no_loss(training, point):
    losses = await training.train([0])
    training.ask(point, "rank")
    losses += await training.train(range(1, NUM_STEPS))
    line = training.read_notice()
    assert line.startswith("rank 1 was lost during step on 2 ranks (")
    assert line.endswith(f"anew from checkpoint {training.initial}, and repeating 1 steps")
    np.testing.assert_allclose(losses, training.unbroken, rtol=0, atol=1e-6)


async def test_a_rank_killed_during_a_save_changes_no_loss(training):
    losses = await training.train([0, 1])
    training.ask(DURING_SAVE, "rank")
    await training.trainer.save(training.folder / "saved")
    assert training.read_notice().startswith("rank 1 was lost during save")
    losses += await training.train([2])
    training.ask("after the update", "rank")
    losses += await training.train(range(3, NUM_STEPS))
    assert training.read_notice().endswith(f"anew from checkpoint {training.folder / 'saved'}, and repeating 1 steps")
    np.testing.assert_allclose(losses, training.unbroken, rtol=0, atol=1e-6)


async def test_a_local_ray_that_is_killed_is_started_anew_and_no_loss_changes(training):
    losses = await training.train([0])
    training.ask("before the backward pass", "node")
    losses += await training.train(range(1, NUM_STEPS))
    assert training.read_notice().startswith("Ray on the machine ")
    np.testing.assert_allclose(losses, training.unbroken, rtol=0, atol=1e-6)


async def test_a_fault_that_returns_each_time_stops_training(training, monkeypatch):
    async def call(*arguments):
        raise RanksLost("rank 0 was lost")

    monkeypatch.setattr(training.group, "call", call)
    num_lines = len(training.progress.lines)
    with pytest.raises(TrainingError, match="step lost ranks 3 times in a row; the last time, rank 0 was lost"):
        await training.train([0])
    assert len(training.progress.lines) == num_lines + 2
