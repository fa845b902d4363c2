"""Transfer of weights to a vLLM server by a file in memory, with digests compared on both sides.

Equal results of `digest_bytes` prove that the server read the bytes that this process wrote. Equal results of `digest_layers`
prove that the server's layers consist of the same matrix rows as the sent weights. With several workers per server, only
`digest_bytes` is compared, since each worker holds a part of every matrix.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from turnsmith.engines.base import SavedWeights, StreamedWeights, WeightSource
from turnsmith.engines.vllm.client import Client
from turnsmith.engines.vllm.inside.turnsmith_vllm.digests import digest_bytes, digest_layers
from turnsmith.errors import EngineError, UsageError

NO_VERSION = "none"
"""Policy version of a server while its weights are unknown."""


class WeightsDiffer(EngineError):
    """Error raised if a server's weights differ from those that were sent."""


@dataclass(frozen=True)
class WeightFile:
    """File with the weights of one policy version, and digests of these weights."""

    path: Path
    policy_version: int
    byte_digests: dict[str, str]
    """Name of each weight → hash of its bytes (`digest_bytes`)."""
    layer_digests: dict[str, int]
    """Layer number → sum of the row hashes of the layer's weights (`digest_layers`)."""


class WeightWriter:
    """Writer of files from which vLLM servers load the policy's weights, in the servers' number type `dtype`."""

    def __init__(self, directory: Path, dtype: torch.dtype, folder: Path) -> None:
        """Prepare to write weight files to `folder`. `directory` is the base model, whose weight shapes must be kept."""
        self._directory = directory
        self._dtype = dtype
        self._folder = folder
        self._num_written = 0

    def write(self, source: WeightSource) -> WeightFile:
        """Write weights to a file. Raises UsageError if they do not match the base model, EngineError if the write fails."""
        weights = self._read(source)
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        if shapes != self._shapes:
            odd = sorted(shapes.items() ^ self._shapes.items())[0][0]
            raise UsageError(
                f"the policy's weights do not fit the model at {self._directory}: the shape of {odd} differs"
            )
        wire = {name: tensor.detach().to("cpu", self._dtype).contiguous() for name, tensor in weights.items()}
        self._num_written += 1
        path = self._folder / f"{self._num_written}.safetensors"
        byte_digests = {name: digest_bytes(tensor) for name, tensor in wire.items()}
        try:
            save_file(wire, path)
        except (OSError, SafetensorError) as error:
            raise EngineError(f"the weights could not be written to {path}: {error}") from error
        return WeightFile(path, source.policy_version, byte_digests, digest_layers(wire.items(), self._dtype))

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        base = self._read(SavedWeights(0, self._directory))
        return {name: tuple(tensor.shape) for name, tensor in base.items()}

    def _read(self, source: WeightSource) -> dict[str, Tensor]:
        """Map the names of all weights, as in model files, to tensors. A weight shared by two layers has one name."""
        if isinstance(source, SavedWeights):
            return read_directory(source.directory)
        if isinstance(source, StreamedWeights):
            return {name: tensor for chunk in source.read() for name, tensor in chunk}
        return dict(source.model.named_parameters())


def read_directory(directory: Path) -> dict[str, Tensor]:
    """Read the weights of a model directory: name → tensor. Raises UsageError."""
    try:
        weights = {name: tensor for file in list_files(directory) for name, tensor in load_file(file).items()}
        config = json.loads((directory / "config.json").read_text())
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UsageError(f"the weights at {directory} cannot be read: {error}") from error
    if config.get("tie_word_embeddings"):
        weights.pop("lm_head.weight", None)
    return weights


def list_files(directory: Path) -> list[Path]:
    """List the safetensors files with a model's weights. Raises UsageError if there is none."""
    index, whole = directory / "model.safetensors.index.json", directory / "model.safetensors"
    if index.is_file():
        return [directory / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]
    if whole.is_file():
        return [whole]
    raise UsageError(
        f"{directory} has no model.safetensors, which the vLLM engine needs: save the model in that format"
    )


def send_weights(client: Client, weight_file: WeightFile, *, check_held: bool) -> None:
    """Load the weights in a file into an idle server. Raises WeightsDiffer, ServerGone, ServerRefused.

    If `check_held`, compare the digests of the server's layers with those of the file. The server gets the new policy version
    only after this comparison.
    """
    client.call("POST", "/update_weight_version", {"new_version": NO_VERSION})
    client.call("POST", "/start_weight_update")
    update = {"path": str(weight_file.path), "digests": weight_file.byte_digests}
    client.call("POST", "/update_weights", {"update_info": update})
    client.call("POST", "/finish_weight_update", {})
    if not client.call("POST", "/reset_prefix_cache")["success"]:
        raise EngineError("vLLM did not clear its KV cache, which was computed with the earlier weights")
    if check_held:
        for held in client.ask_workers("turnsmith_held"):
            compare_layers(held, weight_file)
    client.call("POST", "/update_weight_version", {"new_version": str(weight_file.policy_version)})


def compare_layers(held: dict[str, Any], weight_file: WeightFile) -> None:
    """Raise WeightsDiffer unless a worker's layer digests `held` equal those of the weights that were sent."""
    for layer in sorted(held.keys() | weight_file.layer_digests.keys()):
        if held.get(layer) != weight_file.layer_digests.get(layer):
            place = f"layer {layer}" if layer else "the embeddings, the head or the last norm"
            raise WeightsDiffer(
                f"vLLM does not hold the weights of policy version {weight_file.policy_version}: {place} differs"
            )
