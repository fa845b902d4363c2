"""Samples by servers of vLLM, in processes of their own, that get their weights from here."""

import asyncio
from contextlib import ExitStack

from turnsmith.engines.base import GenerateRequest, WeightSource, check_request
from turnsmith.engines.vllm.handover import Packer, Parcel
from turnsmith.engines.vllm.replica import Replica
from turnsmith.errors import EngineError
from turnsmith.types import Completion


class VllmEngine:
    """Episodes are dealt to replicas and stay there, where what was computed for them lies."""

    def __init__(
        self, replicas: list[Replica], packer: Packer, parcel: Parcel, *, max_context: int, held: ExitStack
    ) -> None:
        """Replicas that are ready, at the weights of a parcel; `held` is closed at the end, and ends them."""
        self.policy_version = parcel.policy_version
        self._replicas = replicas
        self._packer = packer
        self._parcel = parcel
        self._max_context = max_context
        self._held = held
        self._places: dict[str, int] = {}
        self._num_sampling = 0
        self._is_closed = False

    async def generate(self, request: GenerateRequest) -> Completion:
        """Sample one turn. Raises EngineError, and ValueError where the request filters or does not fit."""
        check_request(request, self._max_context)
        if self._is_closed:
            raise EngineError("the engine is closed")
        limit = min(request.max_new_tokens, self._max_context - len(request.token_ids))
        replica = self._replicas[self._place(request.episode_id)]
        self._num_sampling += 1
        try:
            return await replica.sample(request, limit, self.policy_version)
        finally:
            self._num_sampling -= 1

    def release(self, episode_id: str) -> None:
        """The episode is over: its replica has room for another. What the server keeps goes when it needs the room."""
        self._places.pop(episode_id, None)

    async def load_weights(self, source: WeightSource) -> None:
        """Give all replicas new weights. Raises EngineError during a turn, or where they do not arrive; UsageError."""
        if self._num_sampling:
            raise EngineError(
                "the weights changed while turns were being sampled: wait for them before a training step"
            )
        parcel = await asyncio.to_thread(self._packer.pack, source)
        await asyncio.gather(*(replica.take(parcel) for replica in self._replicas))
        # Until now: a replica that is started again meanwhile takes the weights that it was given last.
        self._parcel.path.unlink(missing_ok=True)
        self._parcel = parcel
        self.policy_version = source.policy_version

    def close(self) -> None:
        """End the servers that were started here."""
        self._is_closed = True
        self._held.close()

    def _place(self, episode_id: str) -> int:
        """The replica of an episode: the one with the fewest, where it has none yet."""
        if episode_id not in self._places:
            taken = list(self._places.values())
            self._places[episode_id] = min(range(len(self._replicas)), key=taken.count)
        return self._places[episode_id]
