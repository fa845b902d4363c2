"""Training on ranks of which one is killed, or its node, at a chosen point; losses of a run without a fault."""

import time
from functools import partial
from pathlib import Path

from support.cluster.fragile import FragileStart
from support.models.small_models import make_model
from support.sharded import OPTIMIZER, make_sample
from turnsmith.algo.dapo import dapo_loss
from turnsmith.algo.losses import batch_denominator
from turnsmith.algo.packing import pack
from turnsmith.cluster.group import RankGroup, wait_for
from turnsmith.cluster.trainer import RankTrainer
from turnsmith.config import ModelConfig, TrainerConfig
from turnsmith.training.fsdp.mesh import RankLayout
from turnsmith.training.fsdp.opening import RankStart
from turnsmith.training.local import LocalTrainer

NOTICE_S = 5.0
"""Seconds within which a death must be noticed."""
NUM_STEPS = 7
"""Steps of a comparison: one before the fault, the one with the fault, and five after it."""


class Lines:
    """Progress that keeps its lines with the time of each."""

    def __init__(self):
        self.lines = []

    def log(self, text):
        self.lines.append((time.time(), text))


class FragileTraining:
    """Trainer on two ranks, of which rank 1 causes a fault when a test asks for it."""

    def __init__(self, folder: Path):
        """Start the ranks, and take all steps without a fault."""
        self.folder, self.progress, self.initial = folder, Lines(), folder / "initial"
        make_model().save_pretrained(folder / "base")
        model, layout = ModelConfig(path=str(folder / "base"), device="cpu"), RankLayout(2)
        start = RankStart(folder / "base", model, TrainerConfig(kind="fsdp"), layout, OPTIMIZER)
        self.group = RankGroup(FragileStart(start, folder, victim=1), layout.num_ranks, "cpu", folder / "logs")
        self.trainer = RankTrainer(self.group, layout.fit_size, self.progress)
        wait_for(LocalTrainer(make_model(), OPTIMIZER).save(self.initial))
        wait_for(self.trainer.load(self.initial))
        self.unbroken = wait_for(self.train(range(NUM_STEPS)))

    async def train(self, numbers) -> list[float]:
        """Take the steps with these numbers; return the losses."""
        return [(await self.trainer.step(*make_step(number)))["loss/total"] for number in numbers]

    def ask(self, point: str, victim: str) -> None:
        """Ask rank 1 to kill a process at a point: its own (`rank`), or Ray's daemon on its node (`node`)."""
        (self.folder / point).write_text(victim)

    def read_notice(self) -> str:
        """Return the first line about the last fault. Fails if it came too late, or if there was no fault."""
        died = float((self.folder / "died").read_text())
        noticed, line = next(each for each in self.progress.lines if each[0] > died)
        assert noticed - died < NOTICE_S
        (self.folder / "died").unlink()
        return line


def make_step(number):
    """Make the micro-batches and the loss of a step."""
    samples = [make_sample(10 * number + index) for index in range(6)]
    loss = partial(dapo_loss, denominator=batch_denominator(samples), clip_eps_low=0.2, clip_eps_high=0.3)
    return pack(samples, 64), loss
