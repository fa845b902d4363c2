"""Feed that sends finished iterations and evaluations from the run folder to trackers, each once.

After a kill, or if a tracker was added, `turnsmith resume` sends what the tracker lacks.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.config import RunConfig
from turnsmith.config.extras import require
from turnsmith.runs.folder import RunFolder, read_json, write_json
from turnsmith.tracking import Progress, Tracker
from turnsmith.tracking.names import TRACKERS

NEEDED = {"tensorboard": ("tensorboard", "torch")}
"""Tracker → packages, if it needs others than the one of its name. Torch writes TensorBoard's files."""


@dataclass(frozen=True)
class Measurement:
    """Metrics of an iteration, or result of an evaluation."""

    step: int
    """Number of iterations since the base policy."""
    file: Path
    prefix: str = ""
    """Text before each metric name, such as `eval/SET/`; empty for iterations."""

    @property
    def key(self) -> str:
        """Return the key by which sent measurements are recorded, so that each is sent once."""
        return f"{self.step} {self.prefix or 'iteration'}"

    @property
    def metrics(self) -> dict[str, float]:
        """Return the metrics, each with `prefix` before its name."""
        data = read_json(self.file)
        return {f"{self.prefix}{name}": float(value) for name, value in data.items() if isinstance(value, int | float)}

    @property
    def when_s(self) -> float:
        """Return the Unix time at which the iteration or evaluation finished."""
        return self.file.stat().st_mtime


def list_records(config: RunConfig, folder: RunFolder) -> Iterator[Measurement]:
    """Yield the finished iterations and evaluations in the order of the run; RFT counts as one iteration."""
    step, stages = 0, {name: section.iterations for name, section in config.training.items()}
    for stage, num in {"base": 0, **stages}.items():
        for number in range(min(num, folder.next_iteration(stage))):
            yield Measurement(step + number + 1, folder.iteration(stage, number).metrics)
        inside = {name: step + int(name.rpartition("@")[2]) for name in folder.earlier_evaluations(stage)}
        step += num
        for checkpoint, at in (inside | {stage: step}).items():
            for task_set in config.eval_tasks:
                if (file := folder.result(checkpoint, task_set)).exists():
                    yield Measurement(at, file, prefix=f"eval/{task_set}/")


def check_tracker(name: str, options: Mapping[str, Any]) -> None:
    """Raise UsageError if a built-in tracker lacks its package, or an import path or an option is wrong."""
    if name in TRACKERS.paths:
        require(*NEEDED.get(name, [name]), subject=f"tracking to {name}")
    if options or name not in TRACKERS.paths:
        bind_tracker(name, options)


def bind_tracker(name: str, options: Mapping[str, Any]) -> Callable[[Path, str, dict[str, str]], Tracker]:
    """Load the class of a tracker, with its options bound. Raises UsageError."""
    tracker: Callable[[Path, str, dict[str, str]], Tracker] = TRACKERS.bind(name, options, f"tracking.{name}")
    return tracker


class Feed:
    """Trackers of one run. A failing tracker is dropped, and the run continues."""

    def __init__(self, config: RunConfig, folder: RunFolder, progress: Progress) -> None:
        self._config, self._folder, self._progress = config, folder, progress
        self._trackers: dict[str, Tracker | None] = dict.fromkeys(config.tracking)
        """Trackers by name; None until there is something to send to the tracker."""

    def update(self) -> None:
        """Send the iterations and evaluations that are not sent yet. Never raises: a failing tracker is reported and dropped."""
        for name in list(self._trackers):
            with self._guarding(name):
                self._send(name)

    def close(self) -> None:
        """Close the remaining trackers. Never raises."""
        for name, tracker in list(self._trackers.items()):
            if tracker:
                with self._guarding(name):
                    tracker.close()

    @contextmanager
    def _guarding(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # a tracker failure must not stop the run
            del self._trackers[name]
            self._progress.log(
                f"warning: tracking to {name} has stopped ({type(error).__name__}: {error}); the run goes on, "
                "and `turnsmith resume` sends what is missing"
            )

    def _send(self, name: str) -> None:
        file = self._folder.sent(name)
        sent = set(read_json(file)) if file.exists() else set()
        records = [record for record in list_records(self._config, self._folder) if record.key not in sent]
        if not records:
            return
        tracker = self._trackers[name] = self._trackers[name] or self._open(name, file.parent)
        for record in records:
            tracker.log(record.step, record.metrics, record.when_s)
        write_json(file, sorted(sent | {record.key for record in records}))

    def _open(self, name: str, folder: Path) -> Tracker:
        folder.mkdir(parents=True, exist_ok=True)
        make = bind_tracker(name, self._config.tracking[name])
        return make(folder, self._folder.path.name, flatten(self._config.model_dump(mode="json")))


def flatten(data: Any, key: str = "") -> dict[str, str]:
    """Flatten nested data, e.g. `{"a": {"b": [1, 2]}}` → `{"a.b.0": "1", "a.b.1": "2"}`; drop empty parts."""
    if isinstance(data, list):
        data = dict(enumerate(data))
    if not isinstance(data, Mapping):
        return {key: str(data)}
    parts = [flatten(value, f"{key}.{name}" if key else str(name)) for name, value in data.items()]
    return {name: text for part in parts for name, text in part.items()}
