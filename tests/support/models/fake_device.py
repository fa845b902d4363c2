"""Fake GPU: tensors with shapes, dtypes and devices but without values, and a count of the waits for the device.

Fake CUDA tensors need a build of torch with CUDA, and have no backward pass without a GPU. Fake tensors on `meta` have both
limits lifted, but no autocast, so they compute in float32.
"""

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest
import torch
from torch._functorch import config as functorch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")
FORWARD = torch.device("cuda:0") if torch.version.cuda else META
"""Device for forward passes: fake CUDA where this build of torch has it."""
DTYPES = {"cuda": torch.bfloat16, "meta": torch.float32}
KERNEL_USERS = (
    "turnsmith.engines.torch.attention",
    "turnsmith.engines.torch.paged_attention",
    "turnsmith.training.model",
)

aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}


class Waits(TorchDispatchMode):
    """Places in the package at which the host waits for a device, in order; gives made-up values where code reads some."""

    def __init__(self, device: torch.device, counts: Iterable[int]) -> None:
        super().__init__()
        self.places: list[str] = []
        self._device = device
        self._counts = iter(counts)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is aten._local_scalar_dense.default:
            self._note("item", args[0].device)
            return 0.5 if args[0].is_floating_point() else 1
        if func is aten.nonzero.default:
            self._note("nonzero", args[0].device)
            return torch.zeros(next(self._counts), args[0].dim(), dtype=torch.long, device=args[0].device)
        result = func(*args, **(kwargs or {}))
        if func in COPIES and not is_non_blocking(func, args, kwargs or {}):
            source = args[1] if func is aten.copy_.default else args[0]
            if source.device.type != result.device.type:
                self._note("copy", self._device)
        return result

    def _note(self, kind, device) -> None:
        if device.type == self._device.type:
            self.places.append(f"{kind} at {caller()}")


class FakeEvent:
    """Event of a fake CUDA stream, which takes a second after the last one."""

    def __init__(self, **options) -> None:
        pass

    def record(self, *stream) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other) -> float:
        return 1_000.0


def is_non_blocking(func, args, kwargs) -> bool:
    return bool(kwargs.get("non_blocking") or (func is aten.copy_.default and len(args) > 2 and args[2]))


def caller() -> str:
    """Return the innermost line of the package on the stack."""
    frames = [frame for frame in traceback.extract_stack() if "/turnsmith/" in frame.filename]
    return f"{frames[-1].filename.rpartition('/turnsmith/')[2]}:{frames[-1].line}" if frames else "?"


def read_as_zeros(tensor, **options):
    assert tensor.device.type == "cpu", f"numpy cannot read a tensor on {tensor.device}"
    return np.zeros(tuple(tensor.shape), np.float32)


@contextmanager
def fake_gpu(device: torch.device, counts: Iterable[int] = ()) -> Iterator[Waits]:
    """Run a `with` block on fake tensors with the branches for CUDA. `nonzero` finds as many as the next of `counts`."""
    with pytest.MonkeyPatch.context() as patch, functorch.patch(fake_tensor_allow_meta=True):
        patch.setattr(FakeTensor, "numpy", read_as_zeros)
        patch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
        for module in KERNEL_USERS:
            patch.setattr(f"{module}.has_kernel", lambda device, dtype: True)
        patch.setattr(import_module("torch.optim.adam"), "_device_dtype_check_for_fused", lambda parameter: None)
        patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        patch.setattr(torch.cuda, "Event", FakeEvent)
        patch.setattr(torch.cuda, "get_device_name", lambda *_: "fake GPU")
        patch.setattr(torch.cuda, "is_bf16_supported", lambda *_, **__: True)
        waits = Waits(device, counts)
        with FakeTensorMode(allow_non_fake_inputs=True), waits:
            yield waits
