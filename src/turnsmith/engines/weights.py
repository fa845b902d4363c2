"""Weights from a model directory into a model."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import PreTrainedModel

from turnsmith.errors import UsageError


def load_complete(kind: Any, directory: Path, **options: Any) -> PreTrainedModel:
    """Load by a class of transformers, which gives random values to weights that no file holds: then ValueError names one."""
    model, report = kind.from_pretrained(directory, output_loading_info=True, **options)
    missing = sorted(report["missing_keys"])
    if missing:
        raise ValueError(f"{len(missing)} of its weights are in no file, e.g. {missing[0]}")
    return model


def load_weights(directory: Path, model: PreTrainedModel) -> None:
    """Copy the weights of a model directory into `model`: storage stays, so whoever shares it sees them. Raises UsageError."""
    try:
        model.load_state_dict(load_complete(type(model), directory, dtype=model.dtype).state_dict())
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"the checkpoint at {directory} does not fit the model: {error}") from error
