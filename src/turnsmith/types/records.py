"""Frozen records and read-only parallel arrays."""

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict


class Record(BaseModel):
    """Frozen record that reads and writes JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def to_array(values: Any, dtype: type[np.generic]) -> np.ndarray:
    """Return a read-only one-dimensional array; a view if `values` is an array of this dtype. Raises ValueError."""
    array = np.asarray(values, dtype=dtype).view()
    if array.ndim != 1:
        raise ValueError(f"expected one dimension, got {array.ndim}")
    array.flags.writeable = False
    return array


TokenIds = Annotated[np.ndarray, BeforeValidator(lambda values: to_array(values, np.int32))]
Flags = Annotated[np.ndarray, BeforeValidator(lambda values: to_array(values, np.bool_))]
Floats = Annotated[np.ndarray, BeforeValidator(lambda values: to_array(values, np.float32))]


def check_parallel(name: str, *arrays: np.ndarray) -> None:
    """Raise ValueError if arrays differ in length."""
    lengths = {len(array) for array in arrays}
    if len(lengths) != 1:
        raise ValueError(f"{name}: arrays of different lengths {sorted(lengths)}")
