"""AdamW with moments in bfloat16 or in host memory. Weights and gradients may be DTensors; each rank updates its own shard."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw
from torch.optim.optimizer import Optimizer

from turnsmith.training.activations.offload import allocate_on_host

CHUNK_ELEMENTS = 2**24
"""Number of weights that are updated at a time, so that temporary copies take little memory (64 MiB each in float32)."""


class ChunkedAdamW(Optimizer):
    """Base of the AdamW optimizers: chunk by chunk, `torch.optim.AdamW`'s own kernel on float32 copies of the moments.

    The state has the names of `torch.optim.AdamW`: `step`, `exp_avg`, `exp_avg_sq`.
    """

    def __init__(
        self, params: Iterable[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float = 1e-8
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient. `closure` is not supported."""
        assert closure is None
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, group)

    def _update(self, weight: Tensor, group: dict[str, Any]) -> None:
        """Update a weight and its state."""
        state = self.state[weight]
        if not state:
            state |= {
                "step": torch.zeros(()),
                "exp_avg": self.make_moment(weight),
                "exp_avg_sq": self.make_moment(weight),
            }
        tensors = (weight, weight.grad, state["exp_avg"], state["exp_avg_sq"])
        chunks = [flatten(tensor).split(CHUNK_ELEMENTS) for tensor in tensors]
        for part, gradient, first, second in zip(*chunks, strict=True):
            self.update_chunk(part, gradient, first, second, int(state["step"]), group)
        state["step"] += 1

    def make_moment(self, weight: Tensor) -> Tensor:
        """Make a moment of zeros for a weight."""
        raise NotImplementedError

    def update_chunk(
        self, weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int, group: dict[str, Any]
    ) -> None:
        """Update a chunk of a weight and of its two moments in place; all are 1-D. `step` counts from 0."""
        raise NotImplementedError


class BFloat16AdamW(ChunkedAdamW):
    """AdamW that stores its moments in bfloat16: half the memory.

    The second moment is rounded stochastically. With plain rounding it could not shrink: bfloat16 has 8 significant bits, and a
    decay by 1 − beta2 = 0.1 % is less than half a unit of the last. The first moment changes by 10 % and is rounded plainly.
    """

    def make_moment(self, weight: Tensor) -> Tensor:
        """Make a moment of zeros in bfloat16."""
        return torch.zeros_like(weight, dtype=torch.bfloat16)

    def update_chunk(
        self, weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int, group: dict[str, Any]
    ) -> None:
        """Update a chunk on the weight's device."""
        exact_first, exact_second = first.float(), second.float()
        update_exactly(weight, gradient, exact_first, exact_second, step, group)
        first.copy_(exact_first)
        second.copy_(round_stochastically(exact_second, weight, step))


class HostAdamW(ChunkedAdamW):
    """AdamW that keeps its float32 moments in host memory and computes there: no memory on the weight's device."""

    def make_moment(self, weight: Tensor) -> Tensor:
        """Make a moment of zeros in host memory."""
        return torch.zeros_like(weight, device="cpu")

    def update_chunk(
        self, weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int, group: dict[str, Any]
    ) -> None:
        """Update a chunk in host memory, and copy it to the weight's device."""
        on_host, gradient = (allocate_on_host(each).copy_(each) for each in (weight, gradient))
        update_exactly(on_host, gradient, first, second, step, group)
        weight.copy_(on_host)


def flatten(tensor: Any) -> Tensor:
    """Return this rank's part of a tensor, 1-D and in the same memory."""
    local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    return local.detach().view(-1)


def update_exactly(
    weight: Tensor, gradient: Tensor, first: Tensor, second: Tensor, step: int, group: dict[str, Any]
) -> None:
    """Make one AdamW update of a weight and its moments in place: float32, 1-D, on one device. `step` counts from 0."""
    (beta1, beta2), steps = group["betas"], torch.tensor(float(step), device=weight.device)
    adamw(
        [weight], [gradient], [first], [second], [], [steps], fused=True, amsgrad=False, beta1=beta1, beta2=beta2,
        lr=group["lr"], weight_decay=group["weight_decay"], eps=group["eps"], maximize=False,
    )  # fmt: skip


def round_stochastically(values: Tensor, weight: Tensor, step: int) -> Tensor:
    """Round finite float32 values to bfloat16, up or down with the probabilities that keep their expectation.

    The random bits are a hash of the bits of `weight` (float32, same shape) and the step. So they do not depend on how the weight
    is sharded, and a resumed run repeats them.
    """
    noise = scramble(weight.view(torch.int32) ^ wrap(step * 0x9E3779B9)) & 0xFFFF
    return ((values.view(torch.int32) + noise) & -0x10000).view(torch.float32).bfloat16()


def scramble(bits: Tensor) -> Tensor:
    """Hash each int32 to an int32 (the function `lowbias32` of C. Wellons, 2018)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
        # The mask makes the shift of a signed integer a logical one.
        bits = (bits ^ ((bits >> shift) & (2 ** (32 - shift) - 1))) * wrap(factor)
    return bits


def wrap(number: int) -> int:
    """Return the signed 32-bit integer with the low 32 bits of a number."""
    return (number + 2**31) % 2**32 - 2**31
