"""Fine-tuning that is stopped after any step continues exactly, repeats no more steps than one interval, and checks its data."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from turnsmith.config import RFT, ImitationConfig, OptimizerConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.fine_tuning import digest_batches, fine_tune, make_epochs
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.types import Sample, add_tokenizer_provenance

OPTIMIZER = OptimizerConfig(learning_rate=1e-2, warmup_steps=2, max_tokens_per_micro_batch=64)
LIMITS = ImitationConfig(epochs=2, batch_size=2, save_minutes=0, optimizer=OPTIMIZER.model_dump())
NUM_STEPS = 10


class Stopped(Exception):
    """Stop of a training at a step of the test's choice."""


def make_samples(num=10, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 24, num)
    return [
        add_tokenizer_provenance(
            Sample(f"c{number}", f"t{number}", rng.integers(3, 60, size).astype(np.int32), np.arange(size) > 3,
                   np.zeros(size, np.float32), np.ones(size, np.float32))
        )
        for number, size in enumerate(sizes)
    ]  # fmt: skip


@pytest.fixture
def train(make_run, tmp_path, monkeypatch):
    """Fine-tune in a run folder of its own, as a new process would, until a step or to the end; return losses and steps taken."""

    async def train(name, until=None, samples=None, limits=LIMITS):
        run = replace(make_run(), folder=RunFolder(tmp_path / name))
        taken, start_training = [], run.token_policy.start_training

        async def start(*arguments, **settings):
            trainer = await start_training(*arguments, **settings)
            step = trainer.step

            async def count(*batch):
                if len(taken) == until:
                    raise Stopped
                taken.append(await step(*batch))
                return taken[-1]

            monkeypatch.setattr(trainer, "step", count)
            return trainer

        monkeypatch.setattr(run.token_policy, "start_training", start)
        files = run.folder.iteration(RFT, 0)
        try:
            await fine_tune(RFT, limits, samples or make_samples(), {}, run)
        except Stopped:
            return None, len(taken)
        return [each["loss/nll"] for each in read_json(files.steps)], len(taken)

    return train


@pytest.mark.parametrize("until", range(NUM_STEPS))
async def test_a_training_stopped_before_any_step_repeats_none_that_was_saved(train, until):
    whole, num_taken = await train("whole")
    assert num_taken == len(whole) == NUM_STEPS
    _, before = await train("stopped", until)
    losses, after = await train("stopped")
    assert losses == pytest.approx(whole, abs=1e-6)
    assert (before, after) == (until, NUM_STEPS - until)


async def test_steps_within_the_interval_are_repeated(train):
    limits = LIMITS.model_copy(update={"save_minutes": 60.0})
    await train("run", 4, limits=limits)
    losses, after = await train("run", limits=limits)
    assert len(losses) == after == NUM_STEPS


async def test_saves_are_removed_at_the_end_and_older_ones_before(train, tmp_path):
    await train("run", 7)
    saves = tmp_path / "run" / "stages" / "rft" / "iteration-0000" / "saves"
    assert sorted(path.name for path in saves.iterdir()) == ["0007", "0007.json"]
    await train("run")
    assert not saves.exists()


async def test_other_data_is_refused_and_nothing_is_lost(train, tmp_path):
    await train("run", 4)
    with pytest.raises(UsageError, match="conversations or settings changed"):
        await train("run", samples=make_samples(seed=1))
    assert (await train("run"))[1] == NUM_STEPS - 4


async def test_a_save_that_was_cut_off_is_ignored(train, tmp_path):
    await train("run", 4)
    saves = tmp_path / "run" / "stages" / "rft" / "iteration-0000" / "saves"
    shutil.copy(saves / "0004.json", saves / "0006.json")
    assert (await train("run"))[1] == NUM_STEPS - 4


def test_the_digest_depends_on_tokens_order_and_loss():
    def digest(samples, seed=0):
        return digest_batches(make_epochs(samples, RFT, LIMITS, seed))

    samples = make_samples()
    masked = [replace(samples[0], loss_mask=np.arange(len(samples[0])) > 4), *samples[1:]]
    assert digest(samples) == digest(make_samples())
    assert len({digest(samples), digest(samples, seed=1), digest(masked), digest(make_samples(seed=1))}) == 4
