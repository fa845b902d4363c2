"""Transfer of small arrays between host and device in each step of the engine."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def send(arrays: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """Copy arrays of one dtype to a device in one transfer. The host does not wait for the device. Shapes are kept."""
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    together = torch.from_numpy(np.concatenate([array.ravel() for array in arrays]))
    # Without pinned memory the host would wait until the device has done all earlier work.
    together = together.pin_memory() if device.type == "cuda" else together
    parts = together.to(device, non_blocking=True).split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def fetch(columns: Sequence[Tensor]) -> list[list[float]]:
    """Copy columns of equal length to the host in one transfer, for which the host waits. Exact for integers below 2^53."""
    return torch.stack([column.double() for column in columns]).cpu().tolist()
