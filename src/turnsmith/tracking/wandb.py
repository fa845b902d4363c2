"""Weights & Biases tracker, configured by wandb's environment variables, such as `WANDB_PROJECT` and `WANDB_MODE=offline`."""

import os
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import wandb

STEP = "iteration"
"""Metric used as the x-axis instead of wandb's own step, because wandb drops values of earlier steps."""


class WeightsAndBiases:
    """Tracker with one wandb run per run folder, continued after a resume."""

    def __init__(self, folder: Path, name: str, config: Mapping[str, str]) -> None:
        file = folder / "id"
        if not file.exists():
            file.write_text(uuid4().hex)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "turnsmith"),
            name=name,
            id=file.read_text(),
            resume="allow",
            dir=folder,
            config=dict(config),
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._run.define_metric("*", step_metric=STEP)

    def log(self, step: int, metrics: Mapping[str, float], when_s: float) -> None:
        self._run.log({STEP: step, "time": when_s, **metrics})

    def close(self) -> None:
        self._run.finish()
