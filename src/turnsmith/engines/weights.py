"""Loading of a model's weights from a Hugging Face model directory."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import PreTrainedModel

from turnsmith.errors import UsageError


def load_complete(kind: Any, directory: Path, **options: Any) -> PreTrainedModel:
    """Load a model with a transformers class. Raises ValueError for a missing weight, instead of random initialisation."""
    model, report = kind.from_pretrained(directory, output_loading_info=True, **options)
    missing = sorted(report["missing_keys"])
    if missing:
        raise ValueError(f"{len(missing)} weights of the model are missing from all files, e.g. {missing[0]}")
    return model


def load_weights(directory: Path, model: PreTrainedModel) -> None:
    """Copy the weights in a directory into an existing model, in place. Raises UsageError if they do not fit."""
    try:
        model.load_state_dict(load_complete(type(model), directory, dtype=model.dtype).state_dict())
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UsageError(f"the checkpoint at {directory} does not fit the model: {error}") from error
