"""Process group of the trainer's process and the workers of one vLLM server. Weights travel through it, tensor by tensor.

Both sides may have a default process group for other purposes. The backend is gloo, which moves weights through host memory,
or NCCL, which moves them between GPUs. Nothing else differs between the two.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed import PrefixStore, TCPStore

SENDER = 0
"""Rank of the trainer's process."""
TIMEOUT = timedelta(minutes=10)
"""Time until joining the group or one broadcast fails."""


class WeightGroup:
    """Process group of one sender, rank 0, and the workers of a server. It ends if an object of any rank is deleted."""

    def __init__(self, backend: str, device: torch.device, store: TCPStore, rank: int, size: int) -> None:
        """Join the group; block until all `size` ranks have joined. Tensors that are sent lie on `device`."""
        self.device = device
        self._group = BACKENDS[backend](store, rank, size)
        self._store = store
        # NCCL connects the ranks at the first broadcast.
        wait(self.broadcast([torch.zeros(1, device=device)]))

    def broadcast(self, tensors: Iterable[Tensor]) -> list[Any]:
        """Start to copy contiguous tensors of the sender into those of the other ranks. Return what `wait` takes."""
        return [self._group.broadcast(tensor, SENDER) for tensor in tensors]

    def receive(self, shapes: Sequence[Sequence[int]], dtype: torch.dtype) -> list[Tensor]:
        """Return tensors that the sender broadcasts, of the given shapes."""
        tensors = [torch.empty(list(shape), dtype=dtype, device=self.device) for shape in shapes]
        wait(self.broadcast(tensors))
        return tensors


def wait(broadcasts: Iterable[Any]) -> None:
    """Wait until broadcasts are complete. Raises RuntimeError if a rank is gone or times out."""
    for broadcast in broadcasts:
        broadcast.wait()


def find_own_address(host: str) -> str:
    """Find the IPv4 address under which `host` reaches this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 1))  # chooses a route, and sends nothing
        return str(probe.getsockname()[0])


def listen(receiver: str) -> TCPStore:
    """Open the store by which a sender and its receivers, on the machine `receiver`, find each other, on a free port."""
    return TCPStore(find_own_address(receiver), 0, is_master=True, wait_for_workers=False, timeout=TIMEOUT)


def connect(host: str, port: int) -> TCPStore:
    """Connect a receiver to the store of its sender."""
    return TCPStore(host, port, is_master=False, timeout=TIMEOUT)


def make_gloo(store: TCPStore, rank: int, size: int) -> Any:
    """Make a group of processes that find each other by IP address, whatever the names of their hosts resolve to."""
    gloo: Any = distributed.ProcessGroupGloo
    options = gloo._Options()
    options._devices = [gloo.create_device(hostname=find_own_address(store.host))]
    options._timeout = TIMEOUT
    return gloo(PrefixStore("weights", store), rank, size, options)


def make_nccl(store: TCPStore, rank: int, size: int) -> Any:
    """Make a group of processes with one GPU each."""
    options = distributed.ProcessGroupNCCL.Options()
    options._timeout = TIMEOUT
    return distributed.ProcessGroupNCCL(PrefixStore("weights", store), rank, size, options)


BACKENDS: dict[str, Callable[[TCPStore, int, int], Any]] = {"gloo": make_gloo, "nccl": make_nccl}
