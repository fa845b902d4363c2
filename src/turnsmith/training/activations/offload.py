"""Offload of saved tensors to host memory, and their return before the backward pass needs them."""

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint


@dataclass(eq=False)
class OffloadedTensor:
    """Copy of a tensor in host memory."""

    host: Tensor
    device: torch.device
    """Device of the original tensor."""
    previous: "weakref.ref[OffloadedTensor] | None"
    """Tensor that was offloaded just before, so that the backward pass needs it just after. Weak, so that it can be freed."""
    returned: Tensor | None = None
    """Copy on the device that is complete or under way."""


class HostOffload:
    """Moves saved tensors to host memory in the forward pass, and back in the backward pass one tensor ahead of their use.

    On CUDA the copies run on a stream of their own, from and to pinned memory, beside the computation. The memory of a tensor
    that leaves is reused only after the computation has waited for its copy, and at most two tensors are back at a time. On a CPU
    the same code makes separate copies without a stream.
    """

    def __init__(self) -> None:
        self._side: torch.cuda.Stream | None = None
        self._leaving: Tensor | None = None
        """Last tensor whose copy to the host may be under way."""
        self._last: weakref.ref[OffloadedTensor] | None = None

    def checkpoint(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call `torch.utils.checkpoint.checkpoint` and offload the inputs that it saves."""
        with saved_tensors_hooks(self._pack_filled, self._unpack_filled):
            return checkpoint(function, *arguments, **options)

    def _pack_filled(self, tensor: Tensor) -> "OffloadedTensor | Tensor":
        # The `checkpoint` of torch 2.11 also saves an empty tensor on the CPU.
        return self.pack(tensor) if tensor.numel() else tensor

    def _unpack_filled(self, saved: "OffloadedTensor | Tensor") -> Tensor:
        return saved if isinstance(saved, Tensor) else self.unpack(saved)

    def pack(self, tensor: Tensor) -> OffloadedTensor:
        """Start to copy a tensor to the host."""
        if tensor.is_cuda and self._side is None:
            self._side = torch.cuda.Stream(tensor.device)
        self._join(tensor.device)
        host = allocate_on_host(tensor)
        with self._beside(tensor.device):
            host.copy_(tensor.detach(), non_blocking=True)
        self._leaving = tensor.detach()
        offloaded = OffloadedTensor(host, tensor.device, self._last)
        self._last = weakref.ref(offloaded)
        return offloaded

    def unpack(self, offloaded: OffloadedTensor) -> Tensor:
        """Return the copy on the device, and start to fetch the tensor that the backward pass needs next."""
        self._fetch(offloaded)
        self._join(offloaded.device)
        tensor, offloaded.returned = offloaded.returned, None
        following = offloaded.previous and offloaded.previous()
        if following:
            self._fetch(following)
        assert tensor is not None
        return tensor

    def _fetch(self, offloaded: OffloadedTensor) -> None:
        """Start to copy a tensor to the device, unless the copy is complete or under way."""
        if offloaded.returned is None:
            offloaded.returned = torch.empty_like(offloaded.host, device=offloaded.device, pin_memory=False)
            with self._beside(offloaded.device):
                offloaded.returned.copy_(offloaded.host, non_blocking=True)

    def _beside(self, device: torch.device) -> AbstractContextManager[Any]:
        """Enter the side stream, after all that the computation has been given so far."""
        if self._side is None:
            return nullcontext()
        self._side.wait_stream(torch.cuda.current_stream(device))
        return torch.cuda.stream(self._side)

    def _join(self, device: torch.device) -> None:
        """Let the computation wait for all copies; then the memory of the tensor that left can be reused."""
        if self._side is not None:
            torch.cuda.current_stream(device).wait_stream(self._side)
        self._leaving = None


def allocate_on_host(tensor: Tensor) -> Tensor:
    """Allocate host memory for a tensor: pinned if the tensor is on CUDA, so that copies run beside the computation."""
    return torch.empty_like(tensor, device="cpu", pin_memory=tensor.is_cuda)
