"""Transfer of weights to vLLM servers, in one pass over the weights, with digests compared on both sides.

The weights travel through a process group of this process and the server's workers (`turnsmith_vllm.group`). They travel in
chunks, so that no process holds a second copy. Equal results of `digest_layers` prove that the server's layers consist of the
same matrix rows as the sent weights. With several workers per server, each holds a part of every matrix. Then the digests of
the weights that arrived at each worker are compared instead.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import methodcaller
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from turnsmith.engines.base import SavedWeights, StreamedWeights, WeightSource
from turnsmith.engines.vllm.client import Client
from turnsmith.engines.vllm.inside.turnsmith_vllm.digests import add_digests, digest_layers
from turnsmith.engines.vllm.inside.turnsmith_vllm.group import SENDER, WeightGroup, listen, wait
from turnsmith.errors import EngineError, UsageError

NO_VERSION = "none"
"""Policy version of a server while its weights are unknown."""
CHUNK_BYTES = 2**28
"""Bytes of weights that are read and sent at once; a larger weight is a chunk of its own."""

Weight = tuple[str, Tensor]
"""Name, as in model files, and full tensor of a weight."""


class WeightsDiffer(EngineError):
    """Error raised if a server's weights differ from those that were sent."""


class Sender:
    """Sender of weights to one idle server, connected by a process group."""

    def __init__(
        self, client: Client, backend: str, num_workers: int, *, check_held: bool, sleeps: bool = False
    ) -> None:
        """Connect to the workers of a server. `check_held`: compare the weights that its layers hold, not those that arrived.

        `sleeps`: the server may sleep, and each transfer wakes it. Raises ServerGone, ServerRefused, EngineError.
        """
        self._client, self._check_held, self._sleeps = client, check_held, sleeps
        device, store, size = find_device(backend), listen(client.host), 1 + num_workers
        init_info = {"host": store.host, "port": store.port, "backend": backend, "size": size}
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(client.call, "POST", "/init_weight_transfer_engine", {"init_info": init_info})
            try:
                self._group = WeightGroup(backend, device, store, SENDER, size)
            except RuntimeError as error:
                raise EngineError(f"vLLM did not join the group of the weight transfer: {error}") from error
            finally:
                answer.result()

    def begin(self) -> None:
        """Mark the server's weights as unknown, and announce new ones."""
        self._client.call("POST", "/update_weight_version", {"new_version": NO_VERSION})
        if self._sleeps:  # no effect on a server that is awake
            self._client.call("POST", "/wake_up?tags=weights")
        self._client.call("POST", "/start_weight_update")

    def send(self, weights: Sequence[Weight], dtype: torch.dtype) -> None:
        """Send one chunk; return when the server has loaded it."""
        tensors = [tensor.detach().to(self._group.device, dtype).contiguous() for _, tensor in weights]
        update = {
            "names": [name for name, _ in weights],
            "shapes": [list(tensor.shape) for tensor in tensors],
            "dtype": str(dtype).removeprefix("torch."),
            "is_digested": not self._check_held,
        }
        broadcasts = self._group.broadcast(tensors)
        self._client.call("POST", "/update_weights", {"update_info": update})
        try:
            wait(broadcasts)
        except RuntimeError as error:
            raise WeightsDiffer(f"the transfer of weights to vLLM failed: {error}") from error

    def finish(self, policy_version: int, digests: dict[str, int]) -> None:
        """End the update. The server gets its new policy version only after its digests were compared."""
        self._client.call("POST", "/finish_weight_update", {})
        if self._sleeps:
            self._wake_cache()
        if not self._client.call("POST", "/reset_prefix_cache")["success"]:
            raise EngineError("vLLM did not clear its KV cache, which was computed with the earlier weights")
        for reported in self._client.ask_workers("turnsmith_held" if self._check_held else "turnsmith_arrived"):
            compare_layers(reported, digests, policy_version)
        self._client.call("POST", "/update_weight_version", {"new_version": str(policy_version)})

    def _wake_cache(self) -> None:
        """Wake what still sleeps: KV cache and scheduler. Raises WeightsDiffer if that changes the weights of a worker."""
        before = self._client.ask_workers("turnsmith_held")
        self._client.call("POST", "/wake_up?tags=kv_cache&tags=scheduling")
        if self._client.ask_workers("turnsmith_held") != before:
            raise WeightsDiffer("the weights that vLLM holds changed while its KV cache woke up")

    def abandon(self) -> None:
        """End an update whose weights did not all arrive; the server's weights stay unknown."""
        self._client.call("POST", "/finish_weight_update", {})


def find_device(backend: str) -> torch.device:
    """Return the device from which this process sends. Raises UsageError if NCCL has no GPU here."""
    if backend != "nccl":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise UsageError('engine.vllm.backend is nccl, but torch sees no GPU in this process: set it to "gloo"')
    return torch.device("cuda", torch.cuda.current_device())


def hand_over(weights: StreamedWeights, dtype: torch.dtype, senders: Sequence[Sender]) -> list[EngineError | None]:
    """Send weights in `dtype` to several servers at once. Return for each server None, or the error of its transfer."""
    errors: dict[Sender, EngineError] = {}

    def all_do(step: Callable[[Sender], None]) -> None:
        def attempt(sender: Sender) -> None:
            try:
                step(sender)
            except EngineError as error:
                errors[sender] = error

        with ThreadPoolExecutor(len(senders)) as pool:
            list(pool.map(attempt, [sender for sender in senders if sender not in errors]))

    digests: dict[str, int] = {}
    all_do(methodcaller("begin"))
    try:
        for chunk in weights.read():
            all_do(methodcaller("send", chunk, dtype))
            add_digests(digests, digest_layers(chunk, dtype))
    except BaseException:
        all_do(methodcaller("abandon"))
        raise
    all_do(methodcaller("finish", weights.policy_version, digests))
    return [errors.get(sender) for sender in senders]


def compare_layers(reported: dict[str, Any], sent: dict[str, int], policy_version: int) -> None:
    """Raise WeightsDiffer unless the layer digests that a worker reported equal those of the weights that were sent."""
    for layer in sorted(reported.keys() | sent.keys()):
        if reported.get(layer) != sent.get(layer):
            place = f"layer {layer}" if layer else "the embeddings, the head or the last norm"
            raise WeightsDiffer(f"vLLM does not hold the weights of policy version {policy_version}: {place} differs")


def stream(source: WeightSource) -> StreamedWeights:
    """Return a source's weights as a stream, under their names in model files. Raises UsageError for unreadable files."""
    if isinstance(source, StreamedWeights):
        return source
    if isinstance(source, SavedWeights):
        shapes, open_weights = read_shapes(source.directory), lambda: read_directory(source.directory)
    else:
        model = source.model
        shapes = {name: tuple(tensor.shape) for name, tensor in model.named_parameters()}
        open_weights = model.named_parameters
    return StreamedWeights(source.policy_version, shapes, lambda: cut(open_weights()))


def cut(weights: Iterator[Weight]) -> Iterator[list[Weight]]:
    """Cut weights into chunks of at most CHUNK_BYTES; a larger weight is a chunk of its own."""
    chunk, num_bytes = list[Weight](), 0
    for name, tensor in weights:
        if chunk and num_bytes + tensor.nbytes > CHUNK_BYTES:
            yield chunk
            chunk, num_bytes = [], 0
        chunk.append((name, tensor))
        num_bytes += tensor.nbytes
    yield chunk


def read_shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    """Read the shapes of the weights in a model directory by name, without the weights. Raises UsageError."""
    return {name: tuple(part.get_shape()) for name, part in open_parts(directory)}


def read_directory(directory: Path) -> Iterator[Weight]:
    """Read the weights of a model directory one by one. Raises UsageError."""
    return ((name, part[:]) for name, part in open_parts(directory))


def open_parts(directory: Path) -> Iterator[tuple[str, Any]]:
    """Yield name and safetensors slice of each weight of a model directory. A weight shared by two layers has one name.

    Raises UsageError.
    """
    try:
        is_tied = json.loads((directory / "config.json").read_text()).get("tie_word_embeddings")
        for file in list_files(directory):
            with safe_open(file, "pt") as weights:
                for name in weights.keys():  # noqa: SIM118 - it is no mapping
                    if not (is_tied and name == "lm_head.weight"):
                        yield name, weights.get_slice(name)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise UsageError(f"the weights at {directory} cannot be read: {error}") from error


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
