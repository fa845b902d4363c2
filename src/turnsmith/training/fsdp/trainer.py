"""Trainer inside one rank: shares of the micro-batches in, equal metrics on all ranks out."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed
from transformers import PreTrainedModel

from turnsmith.algo.algorithm import LossFn, Metrics
from turnsmith.config import Moments, OptimizerConfig
from turnsmith.errors import TurnsmithError
from turnsmith.training.account import count_work, describe_step
from turnsmith.training.base import Surprisal
from turnsmith.training.checkpoint import read_trainer_state
from turnsmith.training.fsdp.checkpoint import (
    copy_rank_state,
    copy_weights,
    export_weights,
    load_checkpoint,
    open_file_group,
    write_checkpoint,
)
from turnsmith.training.fsdp.exchange import agree, gather_objects
from turnsmith.training.fsdp.mesh import Mesh
from turnsmith.training.fsdp.rows import RowPart, cut_row, join_values
from turnsmith.training.fsdp.sharding import FORWARD
from turnsmith.training.fsdp.shares import Round, share_out
from turnsmith.training.fsdp.streaming import list_shapes, stream_weights
from turnsmith.training.local import (
    OptimizerSteps,
    check_moments,
    compute_loss,
    drop_without_loss_tokens,
    fill_rows,
    make_surprisal,
    zero_sums,
)
from turnsmith.training.model import Measure, list_families, measure_logprobs, measure_surprisal, pack_row
from turnsmith.training.provenance import check_provenance
from turnsmith.types import MicroBatch, Sample

T = TypeVar("T")

EMPTY = MicroBatch([Sample("", "", np.zeros(2), np.array([False, True]), np.zeros(2), np.zeros(2))])
"""Row of a rank without work: the rank joins in the collectives of a round and adds zeros to the gradient."""


class ShardedTrainer(OptimizerSteps):
    """Trainer of one rank, with a model that `shard_model` sharded. All ranks call each method with equal arguments.

    Each rank gets all micro-batches and computes its share. In a round, each group of `cp` ranks computes one micro-batch.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        mesh: Mesh,
        config: OptimizerConfig,
        total_steps: int = 0,
        policy_version: int = 0,
        dtype: torch.dtype = torch.float32,
        moments: Moments = "float32",
    ) -> None:
        super().__init__(model, config, total_steps, policy_version, dtype, moments)
        self.mesh = mesh
        self._file_group = open_file_group()
        self._writer = ThreadPoolExecutor(1, "checkpoint")

    async def step(self, micro_batches: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        """Make one optimizer step over the micro-batches of all ranks. Returns the same metrics on all ranks.

        If any rank finds changed tokens or a loss that is not finite, all ranks raise its error, with weights unchanged.
        """
        await asyncio.sleep(0)
        kept = drop_without_loss_tokens(micro_batches)
        with self._stopwatch.measure("update"):
            metrics = self._take_step(kept, self._take_unused(micro_batches), loss_fn)
        work = count_work(self._shape, kept, sum(self._count_padding(micro_batch) for micro_batch in kept))
        seconds = merge_seconds(gather_objects(self._stopwatch.read()))
        return metrics | describe_step(work, seconds, self.mesh.device, self.dtype, self.mesh.layout.num_ranks)

    def _take_step(self, kept: list[MicroBatch], unused: list[MicroBatch], loss_fn: LossFn) -> Metrics:
        rounds = self._plan_rounds(kept)
        share = [micro_batch and micro_batch.join() for micro_batch in self._take_share(kept, rounds)]
        self._agree(lambda: check_provenance([*filter(None, share), *unused]))
        self.optimizer.zero_grad(set_to_none=True)
        own = [self._accumulate(micro_batch, loss_fn) for micro_batch in share]
        return self.finish_step(self._collect(own, rounds), kept)

    def _agree(self, compute: Callable[[], T]) -> T:
        return agree(compute, self.mesh.device, self._stopwatch)

    def _accumulate(self, micro_batch: MicroBatch | None, loss_fn: LossFn) -> Metrics:
        """Run the passes of one round and add to the gradients. Return the metrics, none if this rank has no micro-batch."""
        logprobs = self._compute_logprobs(micro_batch)
        zero = logprobs.sum() * 0.0
        try:
            loss, metrics = self._agree(lambda: self._compute_loss(logprobs, micro_batch, loss_fn))
        except TurnsmithError:
            # FSDP needs a backward pass after each forward pass. The next step discards these gradients.
            zero.backward()
            raise
        (zero if loss is None else loss).backward()
        return metrics

    def _compute_loss(
        self, logprobs: Tensor, micro_batch: MicroBatch | None, loss_fn: LossFn
    ) -> tuple[Tensor | None, Metrics]:
        return compute_loss(logprobs, micro_batch, loss_fn, self.num_steps) if micro_batch else (None, {})

    def _collect(self, own: list[Metrics], rounds: list[Round]) -> list[Metrics]:
        """Return the metrics of all ranks' micro-batches, in the order of the micro-batches."""
        gathered, cp = gather_objects(own), self.mesh.layout.cp
        parts = {
            index: gathered[share * cp][number]
            for number, chosen in enumerate(rounds)
            for share, index in enumerate(chosen)
            if index is not None
        }
        return [parts[index] for index in sorted(parts)]

    async def logprobs(self, micro_batches: list[MicroBatch]) -> dict[str, np.ndarray]:
        """Map trajectory ids of this rank's share to current log-probs of their tokens.

        Of the ranks that share a row, the first returns it. Other asyncio tasks run between micro-batches.
        """
        rows: dict[str, np.ndarray] = {}
        for micro_batch in self._take_unused(micro_batches):
            rows |= fill_rows(micro_batch, torch.empty(0))
        used = [micro_batch for micro_batch in micro_batches if micro_batch.num_loss_tokens]
        for chosen in self._take_share(used, self._plan_rounds(used)):
            rows |= self._logprobs_now(chosen)
            await asyncio.sleep(0)
        return {} if self.mesh.cp_rank else rows

    @torch.no_grad()
    def _logprobs_now(self, micro_batch: MicroBatch | None) -> dict[str, np.ndarray]:
        values = self._compute_logprobs(micro_batch)
        self._reshard()
        return fill_rows(micro_batch, values) if micro_batch else {}

    async def surprisal(self, micro_batches: list[MicroBatch]) -> Surprisal:
        """Return the sums of `Surprisal` over all ranks' tokens in the loss. Other asyncio tasks run between micro-batches."""
        kept, sums = drop_without_loss_tokens(micro_batches), zero_sums().to(self.mesh.device)
        for micro_batch in self._take_share(kept, self._plan_rounds(kept)):
            sums += self._surprisal_now(micro_batch)
            await asyncio.sleep(0)
        distributed.all_reduce(sums)
        return make_surprisal(kept, sums.cpu())

    def free_cache(self) -> None:
        """Return GPU memory that torch keeps for later tensors, since an engine may share the GPU."""
        if self.mesh.device.type == "cuda":
            torch.cuda.empty_cache()

    def list_shapes(self) -> dict[str, tuple[int, ...]]:
        """Map the name of each parameter to its full shape."""
        return list_shapes(self.model)

    def stream_weights(self, chunk_bytes: int) -> Iterator[list[tuple[str, Tensor]]]:
        """Yield the full parameters in chunks on rank 0. All ranks iterate in step."""
        return stream_weights(self.model, chunk_bytes)

    @torch.no_grad()
    def _surprisal_now(self, micro_batch: MicroBatch | None) -> Tensor:
        _, values = self._score(measure_surprisal, micro_batch)
        self._reshard()
        return values * (micro_batch is not None)

    async def save(self, directory: Path) -> None:
        """Write a checkpoint of the state at the call. It is also a Hugging Face model directory.

        Steps may go on before it is complete: a thread writes a copy of the state. Calls are served in order. All ranks raise
        UsageError if one cannot write.
        """
        of_trainer = {"moments": self.moments, **self.read_counters()}
        state = copy_rank_state(self.model, self.optimizer, of_trainer, self._file_group)
        await self._with_files(write_checkpoint, directory, state)

    async def export(self, directory: Path) -> None:
        """Write the weights, without the optimizer's state, as a Hugging Face model directory. Raises as `save`."""
        await self._with_files(export_weights, directory, self.model, copy_weights(self.model))

    async def load(self, directory: Path) -> None:
        """Load the state from a checkpoint of any number of ranks, or of the trainer of one process."""
        state = read_trainer_state(directory)
        check_moments(state, self.moments, directory)
        await self._with_files(load_checkpoint, directory, state, self.model, self.optimizer)
        self.restore_counters(state)

    async def _with_files(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of files and the process group for them, in a thread, after earlier calls have ended."""
        call = partial(function, *arguments, self._file_group)
        return await asyncio.get_running_loop().run_in_executor(self._writer, call)

    def close(self) -> None:
        """Finish the checkpoint in progress, then release the optimizer's state and the gradients."""
        self._writer.shutdown()
        super().close()

    def _reshard(self) -> None:
        """Free the gathered weights that FSDP's root keeps for a backward pass; optimizer steps would not change them."""
        self.model.reshard()  # type: ignore[operator]

    def _compute_logprobs(self, micro_batch: MicroBatch | None) -> Tensor:
        """Compute the log-probs of a micro-batch's tokens in the loss, of which this rank's own part has gradients."""
        part, values = self._score(measure_logprobs, micro_batch)
        return join_values(part, values, self.mesh)

    def _score(self, measure: Measure, micro_batch: MicroBatch | None) -> tuple[RowPart, Tensor]:
        """Measure the tokens in the loss of this rank's part of a micro-batch."""
        layout = self.mesh.layout
        row = pack_row(micro_batch or EMPTY, self.mesh.device, layout.row_multiple, in_parts=layout.cuts_attention)
        part = cut_row(row, self.mesh)
        return part, getattr(self.model, FORWARD)(measure, part.row, self.dtype, self._stopwatch)

    def _count_padding(self, micro_batch: MicroBatch) -> int:
        num_tokens = sum(family.num_tokens for family in list_families(micro_batch))
        return -num_tokens % self.mesh.layout.row_multiple

    def _plan_rounds(self, micro_batches: list[MicroBatch]) -> list[Round]:
        costs = [count_work(self._shape, [micro_batch]).flops for micro_batch in micro_batches]
        return share_out(costs, self.mesh.layout.dp)

    def _take_share(self, micro_batches: list[MicroBatch], rounds: list[Round]) -> list[MicroBatch | None]:
        """Return this rank's micro-batch in each round; None in a round without work."""
        own = [chosen[self.mesh.dp_rank] for chosen in rounds]
        return [None if index is None else micro_batches[index] for index in own]

    def _take_unused(self, micro_batches: list[MicroBatch]) -> list[MicroBatch]:
        """Return this rank's share of the micro-batches without tokens in the loss, which are not computed."""
        unused = [micro_batch for micro_batch in micro_batches if not micro_batch.num_loss_tokens]
        return unused[self.mesh.dp_rank :: self.mesh.layout.dp]


def merge_seconds(ranks: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean over ranks of the seconds of each part."""
    return {part: sum(seconds.get(part, 0.0) for seconds in ranks) / len(ranks) for part in ranks[0]}
