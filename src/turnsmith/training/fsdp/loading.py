"""Loading of a sharded model: each rank reads only its own slices of the weight files."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from transformers import AutoModelForCausalLM, GenerationConfig, PreTrainedModel

from turnsmith.config import ModelConfig
from turnsmith.engines.torch import attention
from turnsmith.errors import UsageError
from turnsmith.training.configuration import check_supported, read_config, report_model_errors
from turnsmith.training.directories import find_model, list_weights


def build_empty(config: ModelConfig) -> PreTrainedModel:
    """Build the policy on the meta device, in float32, without memory for weights. Raises UsageError as `load_model` does.

    `shard_model` may shard it; then `fill` allocates and loads its weights.
    """
    directory = find_model(config.path)
    description = read_config(directory, config.rope_scaling)
    check_supported(description, directory)
    with report_model_errors(directory), torch.device("meta"):
        options = {"dtype": torch.float32, "attn_implementation": attention.NAME}
        model: PreTrainedModel = AutoModelForCausalLM.from_config(description, **options)
        if (directory / "generation_config.json").is_file():
            model.generation_config = GenerationConfig.from_pretrained(directory)
    model.name_or_path = str(directory)
    # With dropout, trainer and engine would have different policies.
    return model.eval()


def fill(model: PreTrainedModel, directory: Path, device: torch.device) -> None:
    """Allocate the weights of a model from `build_empty` on a device and load them. Raises UsageError."""
    model.to_empty(device=device)
    # Outside of shards, `to_empty` separates shared weights.
    model.tie_weights()
    with report_model_errors(directory):
        compute_buffers(model)
        read_weights(model, directory)


def load_shards(model: PreTrainedModel, directory: Path) -> None:
    """Copy the weights in a directory into an existing model, in place. Raises UsageError if they do not fit."""
    try:
        read_weights(model, directory)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"the checkpoint at {directory} does not fit the model: {error}") from error


def compute_buffers(model: PreTrainedModel) -> None:
    """Compute the buffers that no file holds, such as rotary frequencies, as the constructors of their modules do."""
    for module in model.modules():
        names = module._non_persistent_buffers_set
        if names:
            built = type(module)(config=model.config)
            for name in names:
                module.get_buffer(name).copy_(built.get_buffer(name))


@torch.no_grad()
def read_weights(model: nn.Module, directory: Path) -> None:
    """Copy this rank's slices of all weights from files of any dtype into the model. Shared weights are read once.

    Raises ValueError for a weight that no file holds, or of another shape; UsageError for missing or truncated files.
    """
    with open_weights(directory) as stored:
        wanted = dict(model.named_parameters()) | list_persistent_buffers(model)
        check_shapes(wanted, stored)
        for name, tensor in wanted.items():
            local, place = locate(tensor)
            local.copy_(stored[name][place])


@contextmanager
def open_weights(directory: Path) -> Iterator[dict[str, Any]]:
    """Open the weight files of a model; yield a dict of name → stored tensor, of which only indexed parts are read.

    Raises UsageError for missing or truncated files.
    """
    with ExitStack() as opened:
        yield {name: tensor for file in list_weights(directory) for name, tensor in open_file(file, opened)}


def open_file(file: Path, opened: ExitStack) -> Iterator[tuple[str, Any]]:
    """Yield the name and the stored tensor of each weight in a file, which stays open until `opened` closes."""
    if file.suffix != ".safetensors":
        yield from torch.load(file, mmap=True, weights_only=True, map_location="cpu").items()
        return
    reader = opened.enter_context(safe_open(file, framework="pt"))
    for name in reader.keys():  # noqa: SIM118
        yield name, reader.get_slice(name)


def list_persistent_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Map the names of the buffers that weight files hold to the buffers."""
    kept = model.state_dict().keys()
    return {name: buffer for name, buffer in model.named_buffers() if name in kept}


def check_shapes(wanted: Mapping[str, Tensor], stored: Mapping[str, Any]) -> None:
    """Raise ValueError unless all wanted tensors are stored in their shapes."""
    missing = sorted(wanted.keys() - stored.keys())
    if missing:
        raise ValueError(f"{len(missing)} weights of the model are missing from all files, e.g. {missing[0]}")
    for name, tensor in wanted.items():
        shape = shape_of(stored[name])
        if shape != tuple(tensor.shape):
            raise ValueError(f"{name} has shape {shape} in the files and {tuple(tensor.shape)} in the model")


def locate(tensor: Tensor) -> tuple[Tensor, tuple[slice, ...]]:
    """Return this rank's part of a tensor, and its place in the whole tensor as one slice per dimension."""
    if not isinstance(tensor, DTensor):
        return tensor, (slice(None),) * tensor.dim()
    shape, offset = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return tensor.to_local(), tuple(slice(start, start + size) for start, size in zip(offset, shape, strict=True))


def shape_of(stored: Any) -> tuple[int, ...]:
    """Return the shape of a stored tensor without reading it."""
    return tuple(stored.shape if isinstance(stored, Tensor) else stored.get_shape())
