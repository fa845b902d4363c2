"""States of the random generators of a process: those of torch, Python and NumPy."""

import random
from typing import Any

import numpy as np
import torch


def read_generators() -> dict[str, Any]:
    """Return the states of all random generators of this process, of types that `torch.load` reads as plain data."""
    of_numpy: Any = np.random.get_state(legacy=True)
    kind, keys, *rest = of_numpy
    states = {"torch": torch.get_rng_state(), "python": random.getstate(), "numpy": (kind, keys.tolist(), *rest)}
    return states | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_initialized() else {})


def restore_generators(states: dict[str, Any]) -> None:
    """Set all random generators of this process to the states of `read_generators`."""
    torch.set_rng_state(states["torch"])
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
