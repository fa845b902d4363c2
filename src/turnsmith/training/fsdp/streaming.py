"""Full weights of a sharded model, one chunk at a time."""

from collections.abc import Iterator

from torch import Tensor, distributed, nn
from torch.distributed.tensor import DTensor


def list_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Map the name of each parameter to its full shape. A parameter shared by two layers has one name."""
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def stream_weights(model: nn.Module, chunk_bytes: int) -> Iterator[list[tuple[str, Tensor]]]:
    """Yield all parameters, full and on the CPU, in chunks of about `chunk_bytes`, on rank 0; empty chunks on other ranks.

    All ranks iterate in step, because they gather each parameter together.
    """
    chunk, size = list[tuple[str, Tensor]](), 0
    for name, parameter in model.named_parameters():
        full = parameter.detach()
        full = full.full_tensor() if isinstance(full, DTensor) else full
        if distributed.get_rank() == 0:
            chunk.append((name, full.cpu()))
        size += full.nbytes
        if size >= chunk_bytes:
            yield chunk
            chunk, size = [], 0
    yield chunk
