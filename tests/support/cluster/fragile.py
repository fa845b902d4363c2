"""Trainers of ranks that kill themselves at a chosen point."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.training.fsdp import checkpoint
from turnsmith.training.fsdp.opening import RankStart

POINTS = {
    "before the forward pass": ("_score", True),
    "before the backward pass": ("_compute_loss", True),
    "before the norm of the gradient": ("clip_gradient", True),
    "before the update": ("update", True),
    "after the update": ("update", False),
}
"""Point of a step → the trainer's method there, and True if the rank dies before it."""
DURING_SAVE = "during a save"


@dataclass(frozen=True)
class FragileStart:
    """Function that opens the trainer of a rank, which dies at a point when a file of that name appears in `folder`."""

    start: RankStart
    folder: Path
    victim: int

    def __call__(self, rank: int, num_ranks: int) -> Any:
        trainer = self.start(rank, num_ranks)
        if rank == self.victim % num_ranks:
            for point, (method, is_before) in POINTS.items():
                setattr(trainer, method, self._guard(point, getattr(trainer, method), is_before))
            checkpoint.write_state = self._guard(DURING_SAVE, checkpoint.write_state, True)
        return trainer

    def _guard(self, point: str, function: Callable[..., Any], is_before: bool) -> Callable[..., Any]:
        """Wrap a function: before or after it, die if the file of the point exists."""

        def guarded(*arguments: Any, **options: Any) -> Any:
            if is_before:
                self._die_if_asked(point)
            result = function(*arguments, **options)
            if not is_before:
                self._die_if_asked(point)
            return result

        return guarded

    def _die_if_asked(self, point: str) -> None:
        file = self.folder / point
        if file.exists():
            file.unlink()
            (self.folder / "died").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
