"""Weight transfer in the server: a safetensors file mapped by both sides, behind vLLM's four-phase interface.

Importing this module registers the transport. Passing `Extension` as `--worker-extension-cls` imports it in every
worker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import vllm
from safetensors.torch import load_file
from turnsmith_vllm.digests import digest_bytes, digest_layers
from turnsmith_vllm.held import read_held
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

NAME = "turnsmith"

SHAPE = ("vocab_size", "hidden_size", "num_hidden_layers")
"""Configuration keys that distinguish models before weights are sent."""


@dataclass
class FileInit(WeightTransferInitInfo):
    """Empty initialisation message."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """Update message: location and digests of all weights."""

    path: str
    """Path of a safetensors file."""
    digests: dict[str, str]
    """`digest_bytes` of each weight, computed by the sender."""


class FileTransport(WeightTransferEngine[FileInit, FileUpdate]):
    """Transport that verifies all weights of a file, then loads them."""

    init_info_cls = FileInit
    update_info_cls = FileUpdate

    def init_transfer_engine(self, init_info: FileInit) -> None:
        """Do nothing; the transport opens no connection."""

    def start_weight_update(self) -> None:
        """Do nothing; the model stays unchanged until the file is verified."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Update as the base class does, without its wait for an accelerator, which a CPU lacks."""
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: FileUpdate) -> None:
        weights = load_file(update_info.path)
        check_arrived(weights, update_info.digests)
        initialize_layerwise_reload(self.model)
        self.model.load_weights(weights.items())

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        pack_heads(self.model)

    def shutdown(self) -> None:
        """Do nothing; the transport has no connection to close."""


def check_arrived(weights: dict[str, torch.Tensor], digests: dict[str, str]) -> None:
    """Raise ValueError if any weight differs from the sent one in any byte."""
    if weights.keys() != digests.keys():
        raise ValueError(f"{len(weights)} weights arrived, and {len(digests)} were sent")
    for name, tensor in weights.items():
        if digest_bytes(tensor) != digests[name]:
            raise ValueError(f"the weight {name} did not arrive as it was sent")


def pack_heads(model: torch.nn.Module) -> None:
    """Repack layers that share their weight with another layer.

    On a CPU, a head tied to the embedding multiplies by a packed copy. vLLM 0.32.0 loads only the embedding, so the
    head would keep its old copy.
    """
    layers: Iterable[Any] = model.modules()
    for module in layers:
        if hasattr(module, "cpu_linear") and module.weight.numel():
            module.quant_method.process_weights_after_loading(module)


def list_unserved_heads(layers: Iterable[Any]) -> list[int]:
    """List head widths that vLLM 0.32.0 accepts although its attention fails at the first turn."""
    attentions = [layer for layer in layers if hasattr(layer, "attn_backend")]
    unserved = {each.head_size for each in attentions if not each.attn_backend.supports_head_size(each.head_size)}
    return sorted(unserved)


class Extension:
    """Methods that Turnsmith adds to a vLLM worker."""

    def turnsmith_settings(self) -> dict[str, Any]:
        """Return the settings that decide how this server samples."""
        config = self.vllm_config  # type: ignore[attr-defined]
        model = config.model_config
        return {
            "version": vllm.__version__,
            "device": self.device.type,  # type: ignore[attr-defined]
            "dtype": str(model.dtype).removeprefix("torch."),
            "max_model_len": model.max_model_len,
            "shape": {name: getattr(model.hf_text_config, name) for name in SHAPE},
            "logprobs_mode": str(getattr(model.logprobs_mode, "value", model.logprobs_mode)),
            "sampling_defaults": model.get_diff_sampling_param(),
            "prefix_caching": bool(config.cache_config.enable_prefix_caching),
            "num_workers": config.parallel_config.world_size,
            "quantization": model.quantization,
            "speculation": config.speculative_config is not None,
            "unserved_heads": list_unserved_heads(config.compilation_config.static_forward_context.values()),
        }

    def turnsmith_held(self) -> dict[str, int]:
        """Return digests of the weights that the layers compute with."""
        dtype = self.vllm_config.model_config.dtype  # type: ignore[attr-defined]
        with torch.inference_mode():
            return digest_layers(read_held(self.model_runner.get_model()), dtype)  # type: ignore[attr-defined]


WeightTransferEngineFactory.register_engine(NAME, FileTransport)
