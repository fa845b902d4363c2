"""Weights on their way to a server: packed into a file in memory, loaded by vLLM's four phases, compared on both sides.

What equal digests prove: the bytes that the server read are those that this process had (`digest_bytes`), and what its layers
compute with afterwards has the rows of these weights, layer by layer (`digest_layers`, which says what it does not see). Workers
that each hold a part of every matrix are not asked for the second.
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

from turnsmith.engines.base import SavedWeights, WeightSource
from turnsmith.engines.vllm.client import Client
from turnsmith.engines.vllm.inside.turnsmith_vllm.digests import digest_bytes, digest_layers
from turnsmith.errors import EngineError, UsageError

NO_VERSION = "none"
"""What a server says that it has while nobody knows."""


class WeightsDiffer(EngineError):
    """A server does not hold the weights that were sent."""


@dataclass(frozen=True)
class Parcel:
    """The weights of one policy version in a file, and what they are."""

    path: Path
    policy_version: int
    arriving: dict[str, str]
    """`digest_bytes` of each weight."""
    held: dict[str, int]
    """`digest_layers` of all."""


class Packer:
    """Writes parcels for a model, in the number format of its servers."""

    def __init__(self, directory: Path, dtype: torch.dtype, folder: Path) -> None:
        """Parcels lie in `folder`; `directory` is that of the base model."""
        self._directory = directory
        self._dtype = dtype
        self._folder = folder
        self._num_packed = 0

    def pack(self, source: WeightSource) -> Parcel:
        """Raises UsageError where the weights are not those of a model like the base, EngineError where there is no room."""
        weights = self._read(source)
        shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
        if shapes != self._shapes:
            odd = sorted(shapes.items() ^ self._shapes.items())[0][0]
            raise UsageError(f"the weights to sample from do not fit the model at {self._directory}: {odd} differs")
        wire = {name: tensor.detach().to("cpu", self._dtype).contiguous() for name, tensor in weights.items()}
        self._num_packed += 1
        path = self._folder / f"{self._num_packed}.safetensors"
        arriving = {name: digest_bytes(tensor) for name, tensor in wire.items()}
        try:
            save_file(wire, path)
        except (OSError, SafetensorError) as error:
            raise EngineError(f"the weights could not be written to {path}: {error}") from error
        return Parcel(path, source.policy_version, arriving, digest_layers(wire.items(), self._dtype))

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        base = self._read(SavedWeights(0, self._directory))
        return {name: tuple(tensor.shape) for name, tensor in base.items()}

    def _read(self, source: WeightSource) -> dict[str, Tensor]:
        """All weights under the names of the model's files, shared ones once."""
        if isinstance(source, SavedWeights):
            return read_directory(source.directory)
        return dict(source.model.named_parameters())


def read_directory(directory: Path) -> dict[str, Tensor]:
    """The weights of a model directory, mapped into memory. Raises UsageError."""
    try:
        weights = {name: tensor for file in list_files(directory) for name, tensor in load_file(file).items()}
        config = json.loads((directory / "config.json").read_text())
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UsageError(f"the weights at {directory} cannot be read: {error}") from error
    if config.get("tie_word_embeddings"):
        weights.pop("lm_head.weight", None)
    return weights


def list_files(directory: Path) -> list[Path]:
    """The files that transformers would load; others may lie beside, as the same weights under other names. Raises UsageError."""
    index, whole = directory / "model.safetensors.index.json", directory / "model.safetensors"
    if index.is_file():
        return [directory / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]
    if whole.is_file():
        return [whole]
    raise UsageError(f"{directory} has no model.safetensors, which vLLM is given weights from: save the model as such")


def hand_over(client: Client, parcel: Parcel, *, check_held: bool) -> None:
    """Load a parcel into a server that samples nothing. Raises WeightsDiffer, and what the client raises.

    The server says that it has the version only when its weights were compared, so no turn is taken from any others.
    """
    client.call("POST", "/update_weight_version", {"new_version": NO_VERSION})
    client.call("POST", "/start_weight_update")
    update = {"path": str(parcel.path), "digests": parcel.arriving}
    client.call("POST", "/update_weights", {"update_info": update})
    client.call("POST", "/finish_weight_update", {})
    if not client.call("POST", "/reset_prefix_cache")["success"]:
        raise EngineError("vLLM did not forget what it had computed with the weights before")
    if check_held:
        for held in client.ask_workers("turnsmith_held"):
            compare_held(held, parcel)
    client.call("POST", "/update_weight_version", {"new_version": str(parcel.policy_version)})


def compare_held(held: dict[str, Any], parcel: Parcel) -> None:
    """Raise WeightsDiffer unless a worker computes with the rows that were sent."""
    for layer in sorted(held.keys() | parcel.held.keys()):
        if held.get(layer) != parcel.held.get(layer):
            place = f"layer {layer}" if layer else "the embeddings, the head or the last norm"
            raise WeightsDiffer(
                f"vLLM does not hold the weights of policy version {parcel.policy_version}: {place} differs"
            )
