"""Loading of a model's weights: from a Hugging Face model directory, or from a stream of chunks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel

from turnsmith.engines.base import StreamedWeights
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


@torch.no_grad()
def copy_chunks(source: StreamedWeights, model: PreTrainedModel) -> None:
    """Copy streamed weights into an existing model, in place. Raises UsageError, with weights unchanged, if they do not fit."""
    own = dict(model.named_parameters())
    check_shapes(source.shapes, {name: tuple(tensor.shape) for name, tensor in own.items()}, "the engine's model")
    for chunk in source.read():
        for name, tensor in chunk:
            own[name].copy_(tensor)


def check_shapes(shapes: Mapping[str, tuple[int, ...]], wanted: Mapping[str, tuple[int, ...]], model: str) -> None:
    """Raise UsageError unless weights have the names and shapes that a model wants. The message names the model."""
    if odd := sorted(name for name in shapes.keys() | wanted.keys() if shapes.get(name) != wanted.get(name)):
        raise UsageError(f"the policy's weights do not fit {model}: the shape of {odd[0]} differs")
