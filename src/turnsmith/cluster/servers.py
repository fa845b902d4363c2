"""vLLM servers on the nodes of a cluster. A Ray actor on the node of a server starts it, watches it, and ends it with the run."""

import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from turnsmith.cluster.actor import check_folder
from turnsmith.cluster.placement import PLACE_S, list_places
from turnsmith.engines.vllm.client import Client
from turnsmith.engines.vllm.inside.turnsmith_vllm.guard import VARIABLE
from turnsmith.engines.vllm.server import POLL_S, Place, Server, Start, check_interpreter
from turnsmith.errors import UsageError

GUARD = ["--middleware", "turnsmith_vllm.guard.Guard"]
ANSWER_S = 60.0
"""Seconds within which an actor must answer; after that, its server counts as ended."""


class ServerActor:
    """Process on a node that keeps one vLLM server, which ends with it. Called by `PlacedServer` only."""

    def __init__(self, key: str, gpus: list[int]) -> None:
        """Set the key of the server, and the numbers of its GPUs on this node; if empty, it gets those that Ray has assigned."""
        os.environ[VARIABLE] = key
        if gpus:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            names = visible.split(",") if visible else list(map(str, range(max(gpus) + 1)))
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names[gpu] for gpu in gpus)

    def start(self, python: str, arguments: list[str], log: Path) -> str:
        """Start the server on a free port of this node, and return its address. Raises UsageError."""
        host = ray.util.get_node_ip_address()
        check_folder(log.parent, host)
        check_interpreter(python)
        port = find_port(host)
        self._server = Server(python, [*arguments, "--host", host, "--port", str(port), *GUARD], log)
        return f"http://{host}:{port}"

    def has_ended(self) -> bool:
        return self._server.has_ended

    def end(self) -> None:
        self._server.end()

    def last_error(self) -> str:
        return self._server.last_error()


class PlacedServer(Server):
    """vLLM server on a node of the cluster. It counts as ended if its actor or its node is gone."""

    def __init__(
        self, make_actor: Callable[[], Any], client: Client, python: str, arguments: list[str], log: Path
    ) -> None:
        """Start a server through a new actor, and send `client` to its address. Raises UsageError if it finds no place."""
        self.log = log
        self._actor = make_actor()
        try:
            client.address = self._ask("start", python, arguments, log.absolute(), timeout_s=PLACE_S)
        except RayError as error:
            ray.kill(self._actor)
            raise UsageError(
                f"a vLLM server found no place on the cluster in {PLACE_S:.0f} s, or lost it ({type(error).__name__}): end other "
                "work there, or add nodes"
            ) from error

    @property
    def has_ended(self) -> bool:
        try:
            return bool(self._ask("has_ended"))
        except RayError:
            return True

    def ends_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self.has_ended:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def end(self) -> None:
        """Kill all processes of the server, and its actor."""
        if ray.is_initialized():
            with suppress(RayError):
                self._ask("end")
            ray.kill(self._actor)

    def last_error(self) -> str:
        try:
            return str(self._ask("last_error"))
        except RayError as error:
            return f"its process or its machine is gone: {type(error).__name__} (its log is {self.log})"

    def _ask(self, method: str, *arguments: Any, timeout_s: float = ANSWER_S) -> Any:
        """Call a method of the actor. Raises its error, or RayError if the actor is gone or does not answer in time."""
        try:
            return ray.get(getattr(self._actor, method).remote(*arguments), timeout=timeout_s)
        except RayTaskError as error:
            raise error.cause from None


def make_place(num_gpus: int, is_shared: bool) -> Place:
    """Return the function that places the servers of one engine on the cluster, `num_gpus` GPUs of one node for each.

    With `is_shared`, they use the GPUs that Ray has given to the ranks, and reserve none.
    """
    key = secrets.token_hex()

    def place(number: int) -> tuple[Client, Start]:
        options: dict[str, Any] = {"num_gpus": num_gpus}
        gpus: list[int] = []
        if is_shared or not num_gpus:
            places = list_places(num_gpus)
            node, gpus = places[number % len(places)]
            options = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
        kind = ray.remote(ServerActor).options(num_cpus=0, max_restarts=0, **options)
        client = Client("", key=key)
        return client, partial(PlacedServer, partial(kind.remote, key, gpus), client)

    return place


def find_port(host: str) -> int:
    """Find a free port."""
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])
