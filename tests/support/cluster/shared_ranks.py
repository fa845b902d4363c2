"""Ranks that hold several trainers at once, so that many tests share the processes, whose start takes seconds."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from turnsmith.cluster.actor import MakeWorker
from turnsmith.cluster.group import RankGroup, wait_for
from turnsmith.cluster.trainer import RankTrainer
from turnsmith.config import ModelConfig, OptimizerConfig, TrainerConfig
from turnsmith.tracking.log_file import LogFile
from turnsmith.training.fsdp.mesh import RankLayout
from turnsmith.training.fsdp.opening import RankStart

NUMBERS = count()
GROUPS: dict[int, RankGroup] = {}
"""Number of ranks → the group that all tests of this process share."""


class Trainers:
    """Trainers of one rank by number."""

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.opened: dict[int, Any] = {}
        self._place = rank, num_ranks

    def open(self, number: int, make: MakeWorker) -> None:
        self.opened[number] = make(*self._place)

    def drop(self, number: int) -> None:
        self.opened.pop(number, None)

    def forward(self, number: int, method: str, *arguments: Any) -> Any:
        return getattr(self.opened[number], method)(*arguments)

    def get(self, number: int, name: str) -> Any:
        return getattr(self.opened[number], name)


class SharedGroup:
    """One trainer on a shared group, with the methods of a `RankGroup` of its own."""

    def __init__(self, group: RankGroup, make: MakeWorker) -> None:
        self._group, self._make, self._number, self.num_ranks = group, make, next(NUMBERS), group.num_ranks
        self.is_running = False

    def count_places(self) -> int:
        return self._group.count_places()

    async def start(self, num_ranks: int) -> None:
        if not self._group.is_running:
            await self._group.start()
        await self._group.call("open", self._number, self._make)
        self.is_running = True

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        return await self._group.call("forward", self._number, method, *arguments)

    async def read(self, name: str) -> Any:
        return (await self._group.call("get", self._number, name))[0]

    def stream(self, method: str, *arguments: Any) -> Iterator[Any]:
        return self._group.stream("forward", self._number, method, *arguments)

    def kill(self) -> None:
        if self.is_running and self._group.is_running:
            wait_for(self._group.call("drop", self._number))
        self.is_running = False


def open_rank_trainer(directory: Path, optimizer: OptimizerConfig, total_steps: int, layout: RankLayout) -> RankTrainer:
    """Open a trainer on shared ranks. Needs a connection to Ray."""
    logs = directory.parent / "ranks"
    if layout.num_ranks not in GROUPS:
        # One group reserves all cores, so a second one would wait for them.
        end_shared_ranks()
        GROUPS[layout.num_ranks] = RankGroup(Trainers, layout.num_ranks, "cpu", logs)
    model = ModelConfig(path=str(directory), device="cpu")
    make = RankStart(directory, model, TrainerConfig(kind="fsdp"), layout, optimizer, total_steps)
    group: Any = SharedGroup(GROUPS[layout.num_ranks], make)
    return RankTrainer(group, layout.fit_size, LogFile(directory.parent / "progress.log"))


def end_shared_ranks() -> None:
    """End all groups of this process."""
    for group in GROUPS.values():
        group.kill()
    GROUPS.clear()
