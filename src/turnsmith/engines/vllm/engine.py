"""Engine that samples with vLLM servers. This process sends the policy's weights to the servers."""

import asyncio
from contextlib import ExitStack

from turnsmith.engines.base import GenerateRequest, WeightSource, check_request
from turnsmith.engines.vllm.handover import Packer, Parcel
from turnsmith.engines.vllm.replica import Replica
from turnsmith.errors import EngineError
from turnsmith.types import Completion


class VllmEngine:
    """Engine of several vLLM replicas. All turns of an episode go to one replica, which caches the episode's keys and values."""

    def __init__(
        self, replicas: list[Replica], packer: Packer, parcel: Parcel, *, max_context: int, held: ExitStack
    ) -> None:
        """Take replicas that have loaded the weights of `parcel`; closing `held` ends the replicas."""
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
        """Sample one turn. Raises EngineError; ValueError if the request is invalid or exceeds the context."""
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
        """Forget the replica of a finished episode; the server evicts the episode's cache later."""
        self._places.pop(episode_id, None)

    async def load_weights(self, source: WeightSource) -> None:
        """Load new weights into all replicas. Raises EngineError during a turn or if the transfer fails; UsageError."""
        if self._num_sampling:
            raise EngineError(
                "the weights changed while turns were being sampled: wait for all turns before a training step"
            )
        parcel = await asyncio.to_thread(self._packer.pack, source)
        await asyncio.gather(*(replica.take(parcel) for replica in self._replicas))
        # Only now, since a replica restarted meanwhile takes the weights given last.
        self._parcel.path.unlink(missing_ok=True)
        self._parcel = parcel
        self.policy_version = source.policy_version

    def close(self) -> None:
        """End the vLLM servers that this run has started."""
        self._is_closed = True
        self._held.close()

    def _place(self, episode_id: str) -> int:
        """Return the number of an episode's replica; a new episode gets the replica with the fewest episodes."""
        if episode_id not in self._places:
            taken = list(self._places.values())
            self._places[episode_id] = min(range(len(self._replicas)), key=taken.count)
        return self._places[episode_id]
