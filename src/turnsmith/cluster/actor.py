"""Process of one rank: a Ray actor that works in a thread of its own, and answers questions meanwhile."""

import asyncio
import inspect
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import ray

from turnsmith.cluster.network import find_interface
from turnsmith.errors import UsageError

WAIT_S = 1_800.0
"""Seconds that a collective operation waits for a slower rank. A dead rank is noticed much earlier, by its process."""
END = None
"""Answer of `next_item` after the last item."""

MakeWorker = Callable[[int, int], Any]
"""Function that builds the object of a rank from the rank's number and the number of ranks. It can be pickled."""


@dataclass(frozen=True)
class RankReport:
    """Activity of a rank at the moment."""

    rank: int
    node: str
    """IP address of the rank's machine."""
    process_id: int
    method: str
    """Method that the rank runs; empty if it waits."""
    elapsed_s: float
    """Seconds since that method began; 0 if the rank waits."""


class RankActor:
    """Process of one rank. Its methods are called by `RankGroup` only.

    All work runs in one dedicated thread, because a CUDA context and torch's settings belong to a thread.
    """

    def __init__(self, rank: int, num_ranks: int, log: str) -> None:
        """Send the output of this process to the file `log`. Raises UsageError if its folder is not visible here."""
        self._rank, self._num_ranks = rank, num_ranks
        self._node = ray.util.get_node_ip_address()
        self._thread = ThreadPoolExecutor(1, "rank")
        self._worker: Any = None
        self._items: Iterator[Any] = iter(())
        self._method, self._begun = "", 0.0
        redirect_output(Path(log), self._node)
        print(f"rank {rank} of {num_ranks}: process {os.getpid()} on {self._node}")

    async def listen(self) -> tuple[str, int]:
        """Open the store through which all ranks find each other, on a free port; return its host and port."""
        return await self._work("listen", self._listen)

    async def join(self, host: str, port: int, device: str, make_worker: MakeWorker) -> None:
        """Form the process group of all ranks through the store at `host:port`, and build the worker."""
        await self._work("start", partial(self._join, host, port, device, make_worker))

    async def call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of the worker, which may be a coroutine function."""
        return await self._work(method, partial(self._call, method, arguments))

    async def read(self, name: str) -> Any:
        """Return an attribute of the worker."""
        return getattr(self._worker, name)

    async def open_stream(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Call a generator method of the worker. `next_item` advances it."""
        self._items = getattr(self._worker, method)(*arguments)

    async def next_item(self) -> Any:
        """Advance the generator. Return its item on rank 0, True on other ranks, END after the last item."""
        item = await self._work("stream", partial(next, self._items, END))
        return item if self._rank == 0 or item is END else True

    async def report(self) -> RankReport:
        """Report the activity of this rank, also during a call."""
        elapsed_s = time.monotonic() - self._begun if self._method else 0.0
        return RankReport(self._rank, self._node, os.getpid(), self._method, elapsed_s)

    async def _work(self, method: str, function: Callable[[], Any]) -> Any:
        self._method, self._begun = method, time.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        finally:
            self._method = ""

    def _listen(self) -> tuple[str, int]:
        from torch.distributed import TCPStore

        self._store = TCPStore(self._node, 0, self._num_ranks, is_master=True, wait_for_workers=False)
        return self._node, self._store.port

    def _join(self, host: str, port: int, device: str, make_worker: MakeWorker) -> None:
        import torch
        from torch import distributed

        if self._rank:
            self._store = distributed.TCPStore(host, port, self._num_ranks, is_master=False)
        choose_interface(self._node)
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
            store=self._store,
            rank=self._rank,
            world_size=self._num_ranks,
            timeout=timedelta(seconds=WAIT_S),
            # Ray shows each process its own GPU only.
            device_id=torch.device("cuda", 0) if device == "cuda" else None,
        )
        self._worker = make_worker(self._rank, self._num_ranks)

    def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        result = getattr(self._worker, method)(*arguments)
        return asyncio.run(finish(result)) if inspect.isawaitable(result) else result


async def finish(result: Awaitable[Any]) -> Any:
    """Await a result."""
    return await result


def redirect_output(log: Path, node: str) -> None:
    """Append standard output and error of this process to a file. Raises UsageError if its folder is not visible here."""
    check_folder(log.parent, node)
    file = log.open("a", buffering=1, encoding="utf-8")
    for stream in (1, 2):
        os.dup2(file.fileno(), stream)
    sys.stdout = sys.stderr = file


def check_folder(folder: Path, node: str) -> None:
    """Raise UsageError if a folder of the run is not visible on this machine, whose address is `node`."""
    if not folder.is_dir():
        raise UsageError(
            f"the machine {node} does not see {folder}: put the run folder on storage that all nodes share"
        )


def choose_interface(address: str) -> None:
    """Let gloo and NCCL in this process use the interface of an IP address, unless the environment names another.

    Without it, gloo may resolve the host's name to a loopback address, which other machines cannot reach.
    """
    if interface := find_interface(address):
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            os.environ.setdefault(name, interface)
