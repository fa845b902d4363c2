"""Group of ranks: started together, called together, and killed together as soon as one of them fails."""

import asyncio
import math
import time
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from torch import distributed

from turnsmith.cluster.actor import END, MakeWorker, RankActor, RankReport
from turnsmith.cluster.connection import own_daemon
from turnsmith.cluster.network import is_closed
from turnsmith.cluster.placement import Places, choose_share, count_places, reserve
from turnsmith.errors import RanksLost, TurnsmithError

GRACE_S = 3.0
"""Seconds after the first error of a rank within which the others must raise the same error, or else are killed."""
CHECK_EVERY_S = 30.0
"""Seconds between two checks, during a call, that all ranks still answer."""
SILENCE_S = 300.0
"""Seconds without an answer after which a rank counts as lost."""
WATCH_EVERY_S = 1.0
"""Seconds between two checks, during a call, that the nodes still run Ray."""
START = "start"
"""Phase in which ranks import their modules; until its end they need not answer."""

T = TypeVar("T")


class RankGroup:
    """Ranks with one object each, whose methods are called on all ranks at once.

    The processes of all ranks form torch's default process group: NCCL on GPUs, gloo on CPUs.
    """

    def __init__(self, make_worker: MakeWorker, num_ranks: int, device: str, logs: Path) -> None:
        """Prepare a group, which `start` starts. `device` is `cpu` or `cuda`; the logs of ranks go to the folder `logs`.

        `make_worker(rank, num_ranks)` builds the object of a rank in its process. Needs a connection to Ray. Raises
        UsageError if there are more ranks than GPUs.
        """
        self.num_ranks = num_ranks
        self._make_worker = make_worker
        self._device = device
        self._logs = logs
        self._share = choose_share(num_ranks, device)
        self._places: Places | None = None
        self._actors: list[Any] = []

    @property
    def is_running(self) -> bool:
        """Return True from `start` until a rank fails or `kill` is called."""
        return bool(self._actors)

    def count_places(self) -> int:
        """Count the ranks that fit on the nodes of the cluster that are alive."""
        return count_places(self._share)

    async def start(self, num_ranks: int | None = None) -> None:
        """Kill the ranks that run, and start new ones, by default as many. Raises RanksLost, and errors of `make_worker`."""
        self.kill()
        self.num_ranks = num_ranks or self.num_ranks
        self._logs.mkdir(parents=True, exist_ok=True)
        self._places = await reserve(self.num_ranks, self._share)
        self._actors = [self._make_actor(rank, self._places) for rank in range(self.num_ranks)]
        host, port = (await self._finish([self._actors[0].listen.remote()], START))[0]
        make_worker = ray.put(self._make_worker)
        await self._finish([a.join.remote(host, port, self._device, make_worker) for a in self._actors], START)

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method on all ranks with the same arguments; return the result of each rank.

        An error that all ranks raise is raised here, and the group goes on. After any other failure the whole group is
        killed. Raises RanksLost if a rank died, hangs or fails alone.
        """
        self._check_running()
        shared = ray.put(arguments)
        return await self._finish([actor.call.remote(method, shared) for actor in self._actors], method)

    def stream(self, method: str, *arguments: Any) -> Iterator[Any]:
        """Call a generator method on all ranks, and yield the items of rank 0, each when it is requested. Raises as `call`.

        Waits without an event loop, and so may be called from synchronous code within one.
        """
        self._check_running()
        shared = ray.put(arguments)
        wait_for(self._finish([actor.open_stream.remote(method, shared) for actor in self._actors], method))
        while (item := wait_for(self._finish([a.next_item.remote() for a in self._actors], method))[0]) is not END:
            yield item

    async def read(self, name: str) -> Any:
        """Return an attribute of the object of rank 0. Raises as `call`."""
        self._check_running()
        return (await self._finish([actor.read.remote(name) for actor in self._actors], name))[0]

    async def report(self) -> list[RankReport]:
        """Return the activity of each rank. Ranks answer during a call. Raises RanksLost if one is dead."""
        self._check_running()
        try:
            return list(await asyncio.gather(*(to_future(actor.report.remote()) for actor in self._actors)))
        except RayError as error:
            raise RanksLost(f"a rank is dead ({summarise(error)})") from error

    def kill(self) -> None:
        """Kill all ranks. May be called twice."""
        actors, places, self._actors, self._places = self._actors, self._places, [], None
        for actor in actors:
            with suppress(RayError):
                ray.kill(actor)
        if places and ray.is_initialized():
            places.release()

    def _make_actor(self, rank: int, places: Places) -> Any:
        strategy = PlacementGroupSchedulingStrategy(places.group, places.bundles[rank])
        kind = ray.remote(RankActor).options(
            num_cpus=places.share.get("CPU", 0),
            num_gpus=places.share.get("GPU", 0),
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=strategy,
        )
        return kind.remote(rank, self.num_ranks, str(self._logs.absolute() / f"rank-{rank}.log"))

    def _check_running(self) -> None:
        if not self._actors:
            raise RanksLost("the ranks are not running")
        # Ray ends this process if a call finds the daemon gone.
        if is_closed(own_daemon()):
            self.kill()
            raise RanksLost("Ray on this machine has ended")

    async def _finish(self, answers: list[Any], method: str) -> list[Any]:
        """Wait for the answers of all ranks. At the first failure, wait for equal ones, or kill the group, and raise."""
        futures = [to_future(answer) for answer in answers]
        try:
            await finish_first(self._wait(futures, must_answer=method != START), self._watch_nodes())
        except BaseException:
            self.kill()
            raise
        errors = {rank: error for rank, future in enumerate(futures) if (error := read_error(future))}
        if not errors and all(future.done() for future in futures):
            return [future.result() for future in futures]
        is_agreed = len(errors) == len(futures) and not any(map(is_loss, errors.values()))
        if not is_agreed:
            self.kill()
        raise choose_error(errors, is_agreed, f"{method} on {self.num_ranks} ranks", self._logs)

    async def _wait(self, futures: list["asyncio.Future[Any]"], *, must_answer: bool) -> None:
        """Wait until all futures are done, a rank's process is dead, or one has failed and the others had `GRACE_S`.

        Ranks that lose their connection to a dead one may fail before Ray reports its death. Raises RanksLost for a silent rank.
        """
        pending, deadline = set(futures), math.inf
        while pending and not any(isinstance(read_error(future), RayError) for future in futures):
            if (left := deadline - time.monotonic()) <= 0:
                return
            done, pending = await asyncio.wait(
                pending, timeout=min(left, CHECK_EVERY_S), return_when=asyncio.FIRST_EXCEPTION
            )
            if any(map(read_error, done)):
                deadline = min(deadline, time.monotonic() + GRACE_S)
            elif not done and must_answer and deadline == math.inf:
                await self._check_answers()

    async def _watch_nodes(self) -> None:
        """Raise RanksLost as soon as Ray has ended on this machine or on a node of the ranks; Ray notices it seconds later."""
        daemons = {own_daemon()} | (self._places.daemons if self._places else set())
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            for address in daemons:
                if await asyncio.to_thread(is_closed, address):
                    raise RanksLost(f"Ray on the machine {address[0]} has ended")

    async def _check_answers(self) -> None:
        """Raise RanksLost unless all ranks answer within `SILENCE_S`."""
        try:
            await asyncio.wait_for(self.report(), SILENCE_S)
        except TimeoutError:
            raise RanksLost(f"a rank has not answered for {SILENCE_S:.0f} s") from None


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a thread of its own, and return its result."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


async def finish_first(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Wait until one of the coroutines ends, and cancel the others. Raises its error."""
    tasks = [asyncio.ensure_future(each) for each in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


def to_future(answer: Any) -> "asyncio.Future[Any]":
    """Convert a reference to a result in Ray to a future of the running event loop."""
    future: asyncio.Future[Any] = asyncio.wrap_future(answer.future())
    # Errors of ranks that were killed are read by nobody, and asyncio would print them.
    future.add_done_callback(lambda done: done.cancelled() or done.exception())
    return future


def read_error(future: "asyncio.Future[Any]") -> BaseException | None:
    """Return the error of a finished future, as its rank raised it; None if it has none or is not finished."""
    if not future.done() or future.cancelled():
        return None
    error = future.exception()
    return error.cause if isinstance(error, RayTaskError) else error


def is_loss(error: BaseException) -> bool:
    """Return True if an error means that a process, a machine or a connection is gone, and not that a call was wrong."""
    if isinstance(error, TurnsmithError):
        return False
    return isinstance(error, RayError | distributed.DistError | ConnectionError) or "gloo" in str(error)


def choose_error(errors: Mapping[int, BaseException], is_agreed: bool, place: str, logs: Path) -> BaseException:
    """Choose the error to raise for the errors of ranks: one that says what to do, the one of all ranks, or RanksLost."""
    own = next((error for error in errors.values() if isinstance(error, TurnsmithError)), None)
    if own or is_agreed:
        return own or next(iter(errors.values()))
    # The rank whose process died is the cause; the errors of others follow from it.
    rank = min(errors, key=lambda rank: not isinstance(errors[rank], RayError), default=0)
    error = errors.get(rank)
    lost = RanksLost(f"rank {rank} was lost during {place} ({summarise(error)}; see {logs / f'rank-{rank}.log'})")
    lost.__cause__ = error
    return lost


def summarise(error: BaseException | None) -> str:
    """Return the kind of an error, and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__
