"""Trainers of ranks that kill a process at a chosen point."""

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
"""Point of a step → the trainer's method there, and True if the fault comes before it."""
DURING_SAVE = "during a save"


@dataclass(frozen=True)
class FragileStart:
    """Function that opens the trainer of a rank, which kills a process at a point when a file of that name is in `folder`."""

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
        """Wrap a function: before or after it, kill if the file of the point exists."""

        def guarded(*arguments: Any, **options: Any) -> Any:
            if is_before:
                self._kill_if_asked(point)
            result = function(*arguments, **options)
            if not is_before:
                self._kill_if_asked(point)
            return result

        return guarded

    def _kill_if_asked(self, point: str) -> None:
        file = self.folder / point
        if file.exists():
            # The parent of a rank's process is Ray's daemon on the node.
            victim = {"rank": os.getpid, "node": os.getppid}[file.read_text()]()
            file.unlink()
            (self.folder / "died").write_text(str(time.time()))
            os.kill(victim, signal.SIGKILL)
            time.sleep(60)  # Nothing else comes from the node of a killed daemon.
