"""Engine that samples with vLLM servers. This process starts them and sends the policy's weights."""

import asyncio
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from turnsmith.config import VllmConfig
from turnsmith.engines.base import GenerateRequest, SavedWeights, StreamedWeights, WeightSource, check_request
from turnsmith.engines.vllm.client import Client
from turnsmith.engines.vllm.handover import hand_over, read_shapes, stream
from turnsmith.engines.vllm.replica import Replica
from turnsmith.engines.vllm.server import Place, Server, Start, check_interpreter
from turnsmith.engines.vllm.settings import ServerRequirements, list_arguments
from turnsmith.engines.weights import check_shapes
from turnsmith.errors import EngineError
from turnsmith.runs.temporary import find_place, temporary_folder
from turnsmith.types import Completion


class VllmEngine:
    """Engine of several vLLM replicas. All turns of an episode go to one replica, which caches the episode's keys and values."""

    def __init__(self, replicas: list[Replica], required: ServerRequirements, held: ExitStack) -> None:
        """Use replicas that have loaded the base model. Closing the stack `held` ends their servers."""
        self.policy_version = 0
        self._replicas = replicas
        self._required = required
        self._max_context = required.max_context
        self._held = held
        self._replica_numbers: dict[str, int] = {}
        self._num_sampling = 0
        self._is_asleep = False
        self._is_closed = False

    async def generate(self, request: GenerateRequest) -> Completion:
        """Sample one turn. Raises EngineError; ValueError if the request is invalid or exceeds the context."""
        check_request(request, self._max_context)
        if self._is_closed:
            raise EngineError("the engine is closed")
        if self._is_asleep:
            raise EngineError("the engine sleeps until it gets new weights")
        limit = min(request.max_new_tokens, self._max_context - len(request.token_ids))
        replica = self._replicas[self._choose_replica(request.episode_id)]
        self._num_sampling += 1
        try:
            return await replica.sample(request, limit, self.policy_version)
        finally:
            self._num_sampling -= 1

    def release(self, episode_id: str) -> None:
        """Forget the replica of a finished episode; the server evicts the episode's cache later."""
        self._replica_numbers.pop(episode_id, None)

    async def load_weights(self, source: WeightSource) -> None:
        """Load new weights into all replicas. Raises EngineError during a turn or on failure, UsageError if they do not fit."""
        self._refuse_during_turns()
        weights = stream(source)
        directory = self._required.directory
        check_shapes(weights.shapes, read_shapes(directory), f"the model at {directory}")
        await self._send(weights)
        self.policy_version, self._is_asleep = source.policy_version, False

    async def sleep(self) -> None:
        """Free the servers' memory until `load_weights`, if they share GPUs with a trainer. Raises EngineError during a turn."""
        if self._required.sleeps:
            self._refuse_during_turns()
            self._is_asleep = True
            await asyncio.gather(*(asyncio.to_thread(replica.sleep) for replica in self._replicas))

    def _refuse_during_turns(self) -> None:
        if self._num_sampling:
            raise EngineError(
                "the weights changed while turns were being sampled: wait for all turns before a training step"
            )

    async def _send(self, weights: StreamedWeights) -> None:
        """Send weights to all replicas in one pass, then once more to each replica whose transfer failed."""
        senders = [replica.expect(weights) for replica in self._replicas]
        errors = await asyncio.to_thread(hand_over, weights, self._required.torch_dtype, senders)
        for replica, error in zip(self._replicas, errors, strict=True):
            if error:
                await replica.repair(error)

    def close(self) -> None:
        """End the vLLM servers that this run has started."""
        self._is_closed = True
        self._held.close()

    def _choose_replica(self, episode_id: str) -> int:
        """Return the number of an episode's replica; a new episode gets the replica with the fewest episodes."""
        if episode_id not in self._replica_numbers:
            taken = list(self._replica_numbers.values())
            self._replica_numbers[episode_id] = min(range(len(self._replicas)), key=taken.count)
        return self._replica_numbers[episode_id]


def open_vllm(
    config: VllmConfig, required: ServerRequirements, logs: Path | None = None, place: Place | None = None
) -> VllmEngine:
    """Start vLLM servers, load the base model's weights and wait until all servers are ready. Raises UsageError.

    Server logs go to the folder `logs`. If it is None, they go to the user's temporary folder. There each log is removed on
    close, unless its server died. Without `place`, servers run on this machine.
    """
    if config.python and not place:
        check_interpreter(config.python)
    weights = stream(SavedWeights(0, required.directory))
    with ExitStack() as held:
        replicas = make_replicas(config, required, weights, held, logs, place)
        for replica in replicas:
            replica.wait()
        return VllmEngine(replicas, required, held.pop_all())


def make_replicas(
    config: VllmConfig,
    required: ServerRequirements,
    weights: StreamedWeights,
    held: ExitStack,
    logs: Path | None,
    place: Place | None,
) -> list[Replica]:
    """Start all servers at the same time, or connect to `config.address` if set. Closing `held` ends started servers."""
    if config.address:
        client = Client(config.address)
        return [Replica(None, client, required, weights, config)]
    sockets = held.enter_context(temporary_folder("vllm"))
    if logs:
        logs.mkdir(parents=True, exist_ok=True)
    place = place or partial(place_here, sockets)
    arguments = list_arguments(required, eager=config.eager, more=config.arguments)
    replicas = []
    for number in range(config.replicas):
        log = logs / f"vllm-{number}.log" if logs else find_place() / f"{sockets.name}-{number}.log"
        client, start = place(number)
        begin = partial(start, str(config.python), arguments, log)
        replicas.append(Replica(begin, client, required, weights, config))
        held.callback(end, replicas[-1], None if logs else log)
    return replicas


def end(replica: Replica, log: Path | None) -> None:
    """End a replica's server. Delete its log at `log`, unless a server of the replica had died by itself."""
    has_died = replica.has_died
    replica.close()
    if log and not has_died:
        log.unlink(missing_ok=True)


def place_here(folder: Path, number: int) -> tuple[Client, Start]:
    """Return client and start of a server on this machine, with a Unix socket in `folder`."""
    socket = folder / f"{number}.socket"
    return Client(f"http://replica-{number}", str(socket)), partial(start_here, socket)


def start_here(socket: Path, python: str, arguments: list[str], log: Path) -> Server:
    """Start a vLLM server, after removing a leftover socket, which vLLM would refuse."""
    socket.unlink(missing_ok=True)
    return Server(python, [*arguments, "--uds", str(socket)], log)
