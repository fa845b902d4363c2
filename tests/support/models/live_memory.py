"""Measurement of the memory that tensors take, independent of the machine: bytes of live storages after each operation."""

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveMemory(TorchDispatchMode):
    """Bytes of all live tensors that operations inside the `with` block made or read, and their peak.

    Memory that a kernel takes and frees itself is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if DTensor in types:
            return NotImplemented  # its operations on local tensors are seen
        output = func(*args, **kwargs or {})
        self.add(tree_leaves((args, kwargs, output)))
        self.peak = max(self.peak, self.count())
        return output

    def add(self, values: Iterable[object]) -> None:
        """Count the storages of tensors from now on."""
        for value in values:
            if isinstance(value, Tensor) and not isinstance(value, DTensor) and value.device.type != "meta":
                storage = value.untyped_storage()
                self._storages.setdefault(id(storage), weakref.ref(storage, partial(self._drop, id(storage))))

    def _drop(self, key: int, dead: object) -> None:
        del self._storages[key]

    def count(self) -> int:
        """Return the bytes of live storages now."""
        storages = (reference() for reference in list(self._storages.values()))
        return sum(storage.nbytes() for storage in storages if storage is not None)


def count_bytes(tensors: Iterable[Tensor]) -> int:
    """Return the bytes of the storages of tensors on this rank, each once."""
    local = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors)
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in local}
    return sum(storage.nbytes() for storage in storages.values())
