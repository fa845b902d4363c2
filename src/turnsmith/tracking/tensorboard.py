"""TensorBoard tracker: event files in the run folder, shown by `tensorboard --logdir RUN/tracking/tensorboard`."""

from collections.abc import Mapping
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator
from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """Writer of scalars to event files. Scalars that an earlier process wrote are not written again."""

    def __init__(self, folder: Path, name: str, config: Mapping[str, str]) -> None:
        self._written = find_scalars(folder)
        self._writer = SummaryWriter(folder)
        if not self._written:
            rows = "\n".join(f"| {key} | `{value}` |" for key, value in config.items())
            self._writer.add_text(name, f"| key | value |\n| --- | --- |\n{rows}")

    def log(self, step: int, metrics: Mapping[str, float], when_s: float) -> None:
        for tag, value in metrics.items():
            if (tag, step) not in self._written:
                self._writer.add_scalar(tag, value, step, walltime=when_s)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def find_scalars(folder: Path) -> set[tuple[str, int]]:
    """Return tag and step of every scalar in a folder's event files."""
    events = EventAccumulator(str(folder), {SCALARS: 0}).Reload()
    return {(tag, event.step) for tag in events.Tags()[SCALARS] for event in events.Scalars(tag)}
