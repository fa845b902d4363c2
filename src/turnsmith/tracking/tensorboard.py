"""TensorBoard: event files in the run folder, read by `tensorboard --logdir RUN/tracking/tensorboard`."""

from collections.abc import Mapping
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator
from torch.utils.tensorboard import SummaryWriter


class TensorBoard:
    """Writes scalars; what an earlier process wrote before it was killed is not written twice."""

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
    """Tag and step of every scalar in the event files of a folder."""
    events = EventAccumulator(str(folder), {SCALARS: 0}).Reload()
    return {(tag, event.step) for tag in events.Tags()[SCALARS] for event in events.Scalars(tag)}
