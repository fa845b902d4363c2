"""Pool of gloo processes for tests of many ranks: started once per test file, a new process group for each call."""

import datetime
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
MAX_RANKS = 8
"""Largest number of ranks of a call. Few tests need more than four."""
LIMIT_S = 1_000.0
"""Default time limit of a call. It is long because the tests share few cores."""
GRACE_S = 2.0
"""Time that the other ranks have to end after a rank failed; ranks that wait for the failed one are killed then."""

PROCESSES = multiprocessing.get_context("forkserver")
IMPORTED_ONCE = ["torch.distributed.fsdp", "transformers.models.qwen2.modeling_qwen2", "turnsmith.training.local"]


class RanksTimedOut(Exception):
    """Ranks exceeded the time limit of a call."""


class RankDied(Exception):
    """The process of a rank ended during a call."""


class RankPool:
    """Up to eight processes that run a function as ranks of a gloo process group.

    The processes start at the first call and are reused. A call in which a rank fails or hangs ends them all, and the next call
    starts new ones. A start takes less than a second after the first, because all imports are done in the fork server.
    """

    def __init__(self) -> None:
        self._ranks: list[tuple[BaseProcess, Connection]] = []

    def __call__(
        self, num_ranks: int, function: Callable[..., Any], *arguments: Any, limit_s: float = LIMIT_S
    ) -> list[Any]:
        """Call `function(*arguments)` on ranks 0 to `num_ranks - 1` and return their results, in order of rank.

        The function is pickled by import path, so it is a function of a module; arguments and results are pickled too.
        `torch.distributed` is initialised on each rank, and warnings are errors. Raises the first exception of a rank, with its
        traceback as a note; RankDied if a process ended, RanksTimedOut after `limit_s`.
        """
        call = pickle.dumps((function, arguments))
        try:
            self._start(num_ranks)
            with tempfile.TemporaryDirectory() as folder:
                for rank, (_, connection) in enumerate(self._ranks[:num_ranks]):
                    connection.send((rank, num_ranks, f"{folder}/store", limit_s))
                    connection.send_bytes(call)
                return self._collect(num_ranks, limit_s)
        except BaseException:
            self.close()
            raise

    def _start(self, num_ranks: int) -> None:
        assert num_ranks <= MAX_RANKS, f"the pool has at most {MAX_RANKS} ranks"
        if str(ROOT) not in sys.path:
            sys.path.append(str(ROOT))  # pytest names a test module by its path from there
        PROCESSES.set_forkserver_preload(IMPORTED_ONCE)
        while len(self._ranks) < num_ranks:
            here, there = PROCESSES.Pipe()
            process = PROCESSES.Process(target=_serve, args=(there, sys.path), daemon=True)
            process.start()
            there.close()
            self._ranks.append((process, here))

    def _collect(self, num_ranks: int, limit_s: float) -> list[Any]:
        """Receive the results of all ranks. After a failure, wait a short time for the other ranks, then raise it."""
        results, failures = {}, []
        waiting = {connection: rank for rank, (_, connection) in enumerate(self._ranks[:num_ranks])}
        end = time.monotonic() + limit_s
        while waiting and (ready := wait(list(waiting), max(0.0, end - time.monotonic()))):
            for connection in ready:
                rank = waiting.pop(connection)
                try:
                    results[rank], failure, trace, ended = pickle.loads(connection.recv_bytes())
                except EOFError:
                    failure, trace, ended = self._describe_death(rank), "it sent no result", 0.0
                if failure:
                    failure.add_note(f"on rank {rank} of {num_ranks}:\n{trace}")
                    failures.append((ended, rank, failure))
                    end = min(end, time.monotonic() + GRACE_S)
        if failures:
            # A death is the cause of the other ranks' errors, otherwise the first exception. Results can arrive in another order.
            raise min(failures)[-1]
        if waiting:
            raise RanksTimedOut(f"ranks {sorted(waiting.values())} of {num_ranks} take more than {limit_s:g} s")
        return [results[rank] for rank in range(num_ranks)]

    def _describe_death(self, rank: int) -> RankDied:
        process = self._ranks[rank][0]
        process.join(GRACE_S)
        return RankDied(f"rank {rank} ended with exit code {process.exitcode}")

    def close(self) -> None:
        """Kill all processes of the pool."""
        for process, connection in self._ranks:
            process.kill()
            process.join()
            process.close()
            connection.close()
        self._ranks.clear()


def _serve(connection: Connection, path: list[str]) -> None:
    """Run calls until the connection closes."""
    import torch

    sys.path[:] = path
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    while True:
        try:
            (rank, num_ranks, store, limit_s), call = connection.recv(), connection.recv_bytes()
        except EOFError:
            return
        connection.send_bytes(_dump(*_run(call, rank, num_ranks, store, limit_s)))


Outcome = tuple[Any, BaseException | None, str, float]
"""Result of a rank, its exception, the traceback, and the end in seconds of a clock that all processes share."""


def _run(call: bytes, rank: int, num_ranks: int, store: str, limit_s: float) -> Outcome:
    """Run a call in a process group of its own."""
    import torch
    from torch import distributed

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # torchao has such strings; Python warns when it compiles them.
            for category in (DeprecationWarning, SyntaxWarning):
                warnings.filterwarnings("ignore", "invalid escape sequence", category)
            distributed.init_process_group(
                "gloo",
                store=distributed.FileStore(store, num_ranks),
                rank=rank,
                world_size=num_ranks,
                timeout=datetime.timedelta(seconds=limit_s),
            )
            torch.manual_seed(0)
            function, arguments = pickle.loads(call)
            return function(*arguments), None, "", time.monotonic()
    except BaseException as error:
        return None, error, traceback.format_exc(), time.monotonic()
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


def _dump(result: Any, error: BaseException | None, trace: str, ended: float) -> bytes:
    """Pickle a result and an exception; replace what cannot be restored by a description."""
    try:
        dumped = pickle.dumps((result, error, trace, ended))
        pickle.loads(dumped)
        return dumped
    except Exception as fault:
        return pickle.dumps((None, RuntimeError(f"the result cannot be pickled: {error or fault!r}"), trace, ended))
