"""Replica of the policy: a vLLM server and its weights; the server is restarted if it dies."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from turnsmith.config import VllmConfig
from turnsmith.engines.base import GenerateRequest, StreamedWeights
from turnsmith.engines.vllm.client import Client, ServerGone, ServerRefused
from turnsmith.engines.vllm.handover import Sender, WeightsDiffer, hand_over
from turnsmith.engines.vllm.server import Server
from turnsmith.engines.vllm.settings import ServerRequirements, check_settings
from turnsmith.engines.vllm.turns import ROUTE, read_turn, write_turn
from turnsmith.errors import EngineError, UsageError
from turnsmith.types import Completion

DYING_S = 15.0
"""Seconds to wait after a refused request for the server to end; a server still alive then is not restarted."""
START_TIMEOUT_S = 3_600.0
"""Maximum seconds for a server to start and load its model."""
MAX_RESTARTS = 3
"""Maximum restarts of a server in a run; after the next death, its turns fail."""


class Replica:
    """vLLM server and its weights. If the server dies, a new one with the same weights samples the interrupted turns again."""

    def __init__(
        self,
        start: Callable[[], Server] | None,
        client: Client,
        required: ServerRequirements,
        weights: StreamedWeights,
        config: VllmConfig,
    ) -> None:
        """Start a server by `start`, or connect to a running one if None. `weights` are its first weights."""
        self._start, self._client, self._required = start, client, required
        self._weights, self._config = weights, config
        self._server = start() if start else None
        self._num_restarts = 0
        self._restarting = asyncio.Lock()
        self._is_closed = False

    def wait(self) -> None:
        """Block until the server is ready and has loaded its first weights. Raises UsageError if the server cannot serve."""
        try:
            self._make_ready()
        except EngineError as error:
            remedy = "" if self._start else ": start it, or give another engine.vllm.address"
            raise UsageError(f"the vLLM engine did not start: {error}{remedy}") from error

    async def sample(self, request: GenerateRequest, limit: int, policy_version: int) -> Completion:
        """Sample one turn; if the server dies meanwhile, restart it and sample the turn again. Raises EngineError."""
        body = write_turn(request, limit, policy_version, keeps_seeds=self._keeps_seeds)
        while True:
            # Wait until a starting server is ready, so that it is not mistaken for a dead one.
            async with self._restarting:
                server = self._server
            try:
                answer = await self._client.sample(ROUTE, body)
            except (ServerGone, ServerRefused) as error:
                await self._replace_if_dead(server, error)
            else:
                return read_turn(answer, request, limit, policy_version, self._required.vocabulary)

    def expect(self, weights: StreamedWeights) -> Sender:
        """Set the weights that a restarted server gets. Return the sender that brings them to the running one."""
        self._weights = weights
        return self._sender

    def sleep(self) -> None:
        """Free the server's memory until new weights are sent; a dead server is restarted then. Raises EngineError."""
        with suppress(ServerGone):
            self._client.call("POST", "/sleep?level=1")

    async def repair(self, error: EngineError) -> None:
        """Send the weights once more after the error of a transfer, or restart the server if it died. Raises EngineError."""
        server = self._server
        try:
            if isinstance(error, ServerGone):
                raise error
            await asyncio.to_thread(self._connect_and_send)
        except (ServerGone, ServerRefused) as again:
            await self._replace_if_dead(server, again)

    @property
    def has_died(self) -> bool:
        """True if a server that this replica started ended unexpectedly or never became ready."""
        return self._num_restarts > 0 or (self._server is not None and self._server.has_ended)

    def close(self) -> None:
        """End the server if this replica started it. May be called twice."""
        self._is_closed = True
        if self._server:
            self._server.end()

    async def _replace_if_dead(self, server: Server | None, error: EngineError) -> None:
        """Restart the server if it died; else raise the error of the failed request."""
        # For some seconds after its engine died, a server still answers with errors.
        if isinstance(error, ServerRefused) and (
            server is None or not await asyncio.to_thread(server.ends_within, DYING_S)
        ):
            raise error
        await self._restart(server, error)

    async def _restart(self, dead: Server | None, why: EngineError) -> None:
        """Restart a dead server, unless another turn already has. Raises EngineError if it was restarted too often."""
        async with self._restarting:
            if self._is_closed:
                raise EngineError("the engine was closed during a turn") from why
            if self._server is not dead:
                return
            if not self._start or dead is None:
                raise why
            if self._num_restarts == MAX_RESTARTS:
                raise EngineError(
                    f"{why}; it was already restarted {MAX_RESTARTS} times (its log is {dead.log})"
                ) from why
            self._num_restarts += 1
            await asyncio.to_thread(self._replace, dead, self._start)

    def _replace(self, dead: Server, start: Callable[[], Server]) -> None:
        dead.end()
        self._server = start()
        self._make_ready()

    def _make_ready(self) -> None:
        """Wait for the server to start, check its settings and send it the weights. Raises UsageError, EngineError."""
        if self._server:
            self._server.wait_until_ready(self._client, START_TIMEOUT_S)
        reported = self._ask_settings()
        check_settings(reported, self._required, self._client.address)
        # On a CPU, a per-request seed kills the engine of vLLM 0.32.0 if a prompt is computed in parts.
        self._keeps_seeds: bool = reported["device"] != "cpu"
        # With several workers, each holds a part of every matrix.
        self._compares_held: bool = self._config.check_held and reported["num_workers"] == 1
        self._num_workers: int = reported["num_workers"]
        try:
            self._connect_and_send()
        except (WeightsDiffer, ServerRefused):
            self._connect_and_send()

    def _ask_settings(self) -> dict[str, Any]:
        try:
            reported: dict[str, Any] = self._client.ask_workers("turnsmith_settings")[0]
        except ServerRefused as refused:
            raise UsageError(
                f"the server at {self._client.address} cannot take weights from Turnsmith: start it as docs/vllm.md says "
                f"({refused})"
            ) from refused
        return reported

    def _connect_and_send(self) -> None:
        """Connect to the server's workers and send the current weights. Raises WeightsDiffer, ServerGone, ServerRefused."""
        self._sender = Sender(
            self._client,
            self._config.backend,
            self._num_workers,
            check_held=self._compares_held,
            sleeps=self._required.sleeps,
        )
        [error] = hand_over(self._weights, self._required.torch_dtype, [self._sender])
        if error:
            raise error
