"""One server and the weights that it is to have: asked for turns, and brought back where it dies."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.vllm.client import Client, ServerGone, ServerRefused
from turnsmith.engines.vllm.handover import Parcel, WeightsDiffer, hand_over
from turnsmith.engines.vllm.server import Server
from turnsmith.engines.vllm.settings import Wanted, check_settings
from turnsmith.engines.vllm.turns import ROUTE, read_turn, write_turn
from turnsmith.errors import EngineError, UsageError
from turnsmith.types import Completion

DYING_S = 15.0
"""How long a server whose engine is dead takes to end."""


@dataclass(frozen=True)
class Care:
    """How a server is looked after."""

    start_timeout_s: float
    restarts: int
    """Times that it is started again in a run."""
    check_held: bool


class Replica:
    """Turns that run when the server dies are sampled again by the next one, from the same weights."""

    def __init__(
        self, start: Callable[[], Server] | None, client: Client, wanted: Wanted, care: Care, parcel: Parcel
    ) -> None:
        """`start` starts the server; None where it runs already, and is nobody's to end."""
        self._start, self._client, self._wanted, self._care = start, client, wanted, care
        self._parcel = parcel
        self._server = start() if start else None
        self._num_restarts = 0
        self._reviving = asyncio.Lock()
        self._is_closed = False

    def wait(self) -> None:
        """Block until the server is ready and has its first weights. Raises UsageError where it cannot serve."""
        try:
            self._make_ready()
        except EngineError as error:
            remedy = "" if self._start else ": start it, or give another engine.vllm.address"
            raise UsageError(f"no engine: {error}{remedy}") from error

    async def sample(self, request: GenerateRequest, limit: int, policy_version: int) -> Completion:
        """One turn; where the server dies meanwhile, it is sampled again by the one that comes after. Raises EngineError."""
        body = write_turn(request, limit, policy_version, keeps_seeds=self._keeps_seeds)
        while True:
            # One that is only starting is not asked, so nobody takes it for dead.
            async with self._reviving:
                server = self._server
            try:
                answer = await self._client.sample(ROUTE, body)
            except (ServerGone, ServerRefused) as error:
                await self._outlive(server, error)
            else:
                return read_turn(answer, request, limit, policy_version, self._wanted.vocabulary)

    async def take(self, parcel: Parcel) -> None:
        """Sample from these weights from now on. Raises EngineError where the server does not have them after two tries."""
        self._parcel = parcel
        server = self._server
        try:
            await asyncio.to_thread(self._hand_over)
        except (ServerGone, ServerRefused) as error:
            await self._outlive(server, error)

    @property
    def has_died(self) -> bool:
        """Has a server of ours ended before it was told to, or never got ready?"""
        return self._num_restarts > 0 or (self._server is not None and self._server.has_ended)

    def close(self) -> None:
        """End the server, if it is ours. Safe to call twice."""
        self._is_closed = True
        if self._server:
            self._server.end()

    async def _outlive(self, server: Server | None, error: EngineError) -> None:
        """A new server where this one is dead; else raises the error."""
        # A server whose engine died still answers for some seconds, that it cannot.
        if isinstance(error, ServerRefused) and (
            server is None or not await asyncio.to_thread(server.ends_within, DYING_S)
        ):
            raise error
        await self._revive(server, error)

    async def _revive(self, dead: Server | None, why: EngineError) -> None:
        """A new server in place of one that is gone; of all turns that notice it, the first one starts it."""
        async with self._reviving:
            if self._is_closed:
                raise EngineError("the engine was closed during a turn") from why
            if self._server is not dead:
                return
            if not self._start or dead is None:
                raise why
            if self._num_restarts == self._care.restarts:
                raise EngineError(
                    f"{why}; it was started again {self._num_restarts} times: engine.vllm.restarts (its log is {dead.log})"
                ) from why
            self._num_restarts += 1
            await asyncio.to_thread(self._replace, dead, self._start)

    def _replace(self, dead: Server, start: Callable[[], Server]) -> None:
        dead.end()
        self._server = start()
        self._make_ready()

    def _make_ready(self) -> None:
        """Check the server's settings and give it weights, once it answers. Raises UsageError, EngineError."""
        if self._server:
            self._server.wait_until_ready(self._client, self._care.start_timeout_s)
        told = self._ask_settings()
        check_settings(told, self._wanted, self._client.address)
        # On a CPU a seed of a request's own kills the engine of vLLM 0.32.0 as soon as a prompt is computed in parts.
        self._keeps_seeds: bool = told["device"] != "cpu"
        # Of several workers each holds a part of every matrix.
        self._compares_held: bool = self._care.check_held and told["num_workers"] == 1
        self._client.call("POST", "/init_weight_transfer_engine", {"init_info": {}})
        self._hand_over()

    def _ask_settings(self) -> dict[str, Any]:
        try:
            told: dict[str, Any] = self._client.ask_workers("turnsmith_settings")[0]
        except ServerRefused as refused:
            raise UsageError(
                f"the server at {self._client.address} cannot take weights from Turnsmith: start it as docs/vllm.md says "
                f"({refused})"
            ) from refused
        return told

    def _hand_over(self) -> None:
        """Send the weights; where they are not what arrived, once again."""
        try:
            hand_over(self._client, self._parcel, check_held=self._compares_held)
        except (WeightsDiffer, ServerRefused):
            hand_over(self._client, self._parcel, check_held=self._compares_held)
