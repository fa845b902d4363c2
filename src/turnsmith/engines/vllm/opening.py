"""From configuration to an engine: a folder for weights, a server or several, the base weights in each of them."""

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch

from turnsmith.config import VllmConfig
from turnsmith.engines.base import SavedWeights
from turnsmith.engines.vllm.client import Client
from turnsmith.engines.vllm.engine import VllmEngine
from turnsmith.engines.vllm.handover import Packer, Parcel
from turnsmith.engines.vllm.replica import Care, Replica
from turnsmith.engines.vllm.server import Server, check_interpreter
from turnsmith.engines.vllm.settings import Wanted, list_arguments
from turnsmith.temporary import find_place, temporary_folder

MEMORY = Path("/dev/shm")
"""A file system that lies in memory."""


def open_vllm(config: VllmConfig, wanted: Wanted) -> VllmEngine:
    """Servers with the base weights, ready. Blocks until then. Raises UsageError where there can be none."""
    if config.python:
        check_interpreter(config.python)
    with ExitStack() as held:
        parcels = held.enter_context(temporary_folder("turnsmith-weights", MEMORY if MEMORY.is_dir() else None))
        packer = Packer(wanted.directory, getattr(torch, wanted.dtype), parcels)
        parcel = packer.pack(SavedWeights(0, wanted.directory))
        replicas = make_replicas(config, wanted, parcel, held)
        for replica in replicas:
            replica.wait()
        return VllmEngine(replicas, packer, parcel, max_context=wanted.max_context, held=held.pop_all())


def make_replicas(config: VllmConfig, wanted: Wanted, parcel: Parcel, held: ExitStack) -> list[Replica]:
    """All servers, which from now on start side by side, and end with `held`; or the one that runs already."""
    care = Care(config.start_timeout_s, config.restarts, config.check_held)
    if config.address:
        client = Client(config.address, turn_timeout_s=config.turn_timeout_s)
        return [Replica(None, client, wanted, care, parcel)]
    sockets = held.enter_context(temporary_folder("vllm"))
    replicas = []
    for number in range(config.replicas):
        socket, log = sockets / f"{number}.socket", find_place() / f"vllm-{os.getpid()}-{number}.log"
        arguments = list_arguments(wanted, socket, eager=config.eager, more=config.arguments)
        client = Client(f"http://replica-{number}", str(socket), turn_timeout_s=config.turn_timeout_s)
        begin = partial(start, str(config.python), arguments, socket, log)
        replicas.append(Replica(begin, client, wanted, care, parcel))
        held.callback(replicas[-1].close)
    return replicas


def start(python: str, arguments: list[str], socket: Path, log: Path) -> Server:
    """A server, at a socket that one before it may have left when it was killed: vLLM takes none that is there."""
    socket.unlink(missing_ok=True)
    return Server(python, arguments, log)
