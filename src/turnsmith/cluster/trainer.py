"""Trainer whose model is sharded over the ranks of a group. A group that loses a rank is replaced, and no step is lost."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.cluster.connection import restore
from turnsmith.cluster.group import RankGroup, wait_for
from turnsmith.engines.base import StreamedWeights
from turnsmith.errors import RanksLost, TrainingError
from turnsmith.tracking import Progress
from turnsmith.training.base import Surprisal
from turnsmith.types import MicroBatch

if TYPE_CHECKING:
    from torch import Tensor

MAX_LOSSES = 3
"""Number of times in a row that a call may lose ranks; then the fault is not a chance one, and the run stops."""

CHUNK_BYTES = 2**28
"""Size above which a chunk of streamed weights takes no further parameter."""

FindSize = Callable[[int], int | None]
"""Function from the number of ranks that fit on the cluster to the largest number that the layout allows; None if none."""


class RankTrainer:
    """Trainer that calls `ShardedTrainer` on all ranks of a group.

    If a rank is lost, all are killed. New ranks load the last checkpoint, or the stage's initial weights, and repeat the
    optimizer steps since then with the same batches, so the weights are those of an unbroken run. If a node is gone, the
    ranks that are left continue if the layout allows it.
    """

    def __init__(self, group: RankGroup, find_size: FindSize, progress: Progress) -> None:
        """Make a trainer of a group that need not run yet."""
        self._group = group
        self._num_ranks = group.num_ranks
        self._find_size = find_size
        self._progress = progress
        self._checkpoint: Path | None = None
        self._steps: list[tuple[list[MicroBatch], LossFn]] = []
        """Arguments of the optimizer steps since the checkpoint, or since the initial weights."""

    async def start(self) -> None:
        """Start the ranks, which load the initial weights. Raises UsageError."""
        await self._retry(self._group.report, "start")

    async def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        """Make one optimizer step over the micro-batches, which the ranks share."""
        metrics: Metrics = (await self._call("step", micro_batches, loss_fn))[0]
        self._steps.append((micro_batches, loss_fn))
        return metrics

    async def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, np.ndarray]:
        """Map trajectory ids to log-probs of their tokens, as each rank computes them for its share."""
        shares = await self._call("logprobs", micro_batches)
        return {name: row for rows in shares for name, row in rows.items()}

    async def surprisal(self, micro_batches: list[MicroBatch]) -> Surprisal:
        """Return the sums of `Surprisal` over the tokens in the loss."""
        sums: Surprisal = (await self._call("surprisal", micro_batches))[0]
        return sums

    async def publish(self) -> StreamedWeights:
        """Return a stream of the current weights. Rank 0 sends the full parameters, one chunk at a time."""
        await self._call("free_cache")
        version = await self._retry(lambda: self._group.read("policy_version"), "publish")
        return StreamedWeights(version, (await self._call("list_shapes"))[0], self._stream)

    async def save(self, directory: Path) -> None:
        """Write a checkpoint, each rank its own shards. Later restarts begin there."""
        await self._call("save", directory)
        self._checkpoint, self._steps = directory, []

    async def load(self, directory: Path) -> None:
        """Load a checkpoint, each rank its own shards."""
        await self._call("load", directory)
        self._checkpoint, self._steps = directory, []

    def close(self) -> None:
        """Kill the ranks."""
        self._group.kill()
        self._steps = []

    def _stream(self) -> Iterator[Sequence[tuple[str, "Tensor"]]]:
        """Yield the parameters in chunks. If a rank is lost meanwhile, the stream starts again with equal values."""
        for attempts_left in reversed(range(MAX_LOSSES)):
            try:
                wait_for(self._make_running())
                yield from self._group.stream("stream_weights", CHUNK_BYTES)
                return
            except RanksLost as error:
                self._report(error, "publish", attempts_left)

    async def _call(self, method: str, *arguments: Any) -> list[Any]:
        return await self._retry(lambda: self._group.call(method, *arguments), method)

    async def _retry(self, call: Callable[[], Any], method: str) -> Any:
        """Await a call to the ranks; if ranks are lost, start new ones and call again. Raises TrainingError."""
        for attempts_left in reversed(range(MAX_LOSSES)):
            try:
                await self._make_running()
                return await call()
            except RanksLost as error:
                self._report(error, method, attempts_left)
        raise AssertionError("the last attempt returns or raises")

    def _report(self, error: RanksLost, method: str, attempts_left: int) -> None:
        """Show that ranks were lost and how training continues. Raises TrainingError if no attempt is left."""
        if not attempts_left:
            raise TrainingError(f"{method} lost ranks {MAX_LOSSES} times in a row; the last time, {error}") from error
        origin = f"checkpoint {self._checkpoint}" if self._checkpoint else "the stage's initial weights"
        self._progress.log(f"{error}: starting all ranks anew from {origin}, and repeating {len(self._steps)} steps")

    async def _make_running(self) -> None:
        """Start the ranks if none run, and bring them to the state after the last finished step."""
        if self._group.is_running:
            return
        restore()
        await self._group.start(self._choose_size())
        if self._checkpoint:
            await self._group.call("load", self._checkpoint)
        for arguments in self._steps:
            await self._group.call("step", *arguments)

    def _choose_size(self) -> int:
        """Return the number of ranks to start: as before, or as many as a smaller cluster and the layout allow."""
        num_places, wanted = self._group.count_places(), self._num_ranks
        if num_places >= wanted:
            return wanted
        size = self._find_size(num_places)
        if not size:
            raise TrainingError(
                f"{num_places} of {wanted} ranks still fit on the cluster, too few for trainer.cp: add nodes, then resume"
            )
        self._progress.log(f"a node is gone: training continues on {size} of {wanted} ranks")
        return size
