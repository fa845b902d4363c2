"""Opener of the vLLM engine: starts servers and loads the base model's weights into each."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from turnsmith.config import VllmConfig
from turnsmith.engines.base import SavedWeights
from turnsmith.engines.vllm.client import Client
from turnsmith.engines.vllm.engine import VllmEngine
from turnsmith.engines.vllm.handover import Packer, Parcel
from turnsmith.engines.vllm.replica import Replica
from turnsmith.engines.vllm.server import Server, check_interpreter
from turnsmith.engines.vllm.settings import Wanted, list_arguments
from turnsmith.runs.temporary import find_place, temporary_folder

MEMORY = Path("/dev/shm")
"""Folder of a file system in memory."""


def open_vllm(config: VllmConfig, wanted: Wanted, logs: Path | None = None) -> VllmEngine:
    """Start vLLM servers, load the base model's weights and wait until all servers are ready. Raises UsageError.

    Server logs go to the folder `logs`. If it is None, logs go to the temporary folder and are removed on close, unless a
    server died.
    """
    if config.python:
        check_interpreter(config.python)
    with ExitStack() as held:
        parcels = held.enter_context(temporary_folder("turnsmith-weights", MEMORY if MEMORY.is_dir() else None))
        packer = Packer(wanted.directory, getattr(torch, wanted.dtype), parcels)
        parcel = packer.pack(SavedWeights(0, wanted.directory))
        replicas = make_replicas(config, wanted, parcel, held, logs)
        for replica in replicas:
            replica.wait()
        return VllmEngine(replicas, packer, parcel, max_context=wanted.max_context, held=held.pop_all())


def make_replicas(
    config: VllmConfig, wanted: Wanted, parcel: Parcel, held: ExitStack, logs: Path | None
) -> list[Replica]:
    """Start all servers at the same time, registered to end with `held`; or connect to the server at `config.address`."""
    if config.address:
        client = Client(config.address)
        return [Replica(None, client, wanted, parcel, check_held=config.check_held)]
    sockets = held.enter_context(temporary_folder("vllm"))
    if logs:
        logs.mkdir(parents=True, exist_ok=True)
    replicas = []
    for number in range(config.replicas):
        socket = sockets / f"{number}.socket"
        log = logs / f"vllm-{number}.log" if logs else find_place() / f"{sockets.name}-{number}.log"
        arguments = list_arguments(wanted, socket, eager=config.eager, more=config.arguments)
        client = Client(f"http://replica-{number}", str(socket))
        begin = partial(start, str(config.python), arguments, socket, log)
        replicas.append(Replica(begin, client, wanted, parcel, check_held=config.check_held))
        held.callback(end, replicas[-1], None if logs else log)
    return replicas


def end(replica: Replica, log: Path | None) -> None:
    """End a replica's server, and remove its temporary log unless a server died."""
    has_died = replica.has_died
    replica.close()
    if log and not has_died:
        log.unlink(missing_ok=True)


def start(python: str, arguments: list[str], socket: Path, log: Path) -> Server:
    """Start a vLLM server, after removing a leftover socket, which vLLM would refuse."""
    socket.unlink(missing_ok=True)
    return Server(python, arguments, log)
