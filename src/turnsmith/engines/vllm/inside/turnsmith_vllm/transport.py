"""Server's side of a weight transfer: vLLM loads a safetensors file that the trainer's process has written.

Importing this module registers the transport with vLLM. The option `--worker-extension-cls` with `Extension` imports the
module in every worker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import vllm
from safetensors.torch import load_file
from turnsmith_vllm.digests import digest_bytes, digest_layers, read_held
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

NAME = "turnsmith"

SHAPE = ("vocab_size", "hidden_size", "num_hidden_layers")
"""Keys of a model's configuration whose values must be equal in Turnsmith's and the server's model."""

ROPE = ("rope_type", "factor", "original_max_position_embeddings")
"""Parameters of the rotary embedding whose values must be equal in Turnsmith's and the server's model."""


@dataclass
class FileInit(WeightTransferInitInfo):
    """Empty initialisation message, which vLLM's interface requires."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """Update message with the path of a weight file and the digests of its weights."""

    path: str
    digests: dict[str, str]
    """Name of each weight → hash of its bytes (`digest_bytes`), computed by the sender."""


class FileTransport(WeightTransferEngine[FileInit, FileUpdate]):
    """Weight transport for vLLM that verifies all weights of a file before it loads them."""

    init_info_cls = FileInit
    update_info_cls = FileUpdate

    def init_transfer_engine(self, init_info: FileInit) -> None:
        """Do nothing: a file needs no connection."""

    def start_weight_update(self) -> None:
        """Do nothing: the model stays unchanged until the file is verified."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load a file's weights. Unlike the base class, wait for the device only if it is an accelerator."""
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
        """Do nothing: a file leaves no connection to close."""


def check_arrived(weights: dict[str, torch.Tensor], digests: dict[str, str]) -> None:
    """Raise ValueError unless every weight equals the weight that was sent, byte by byte."""
    if weights.keys() != digests.keys():
        raise ValueError(f"{len(weights)} weights arrived, and {len(digests)} were sent")
    for name, tensor in weights.items():
        if digest_bytes(tensor) != digests[name]:
            raise ValueError(f"the weight {name} did not arrive as it was sent")


def pack_heads(model: torch.nn.Module) -> None:
    """Renew the packed weight copies of layers that share their weight with another layer.

    On a CPU, an output head tied to the embedding computes with a packed copy. vLLM 0.32.0 updates only the embedding, so the
    head would keep its old copy.
    """
    layers: Iterable[Any] = model.modules()
    for module in layers:
        if hasattr(module, "cpu_linear") and module.weight.numel():
            module.quant_method.process_weights_after_loading(module)


def list_unserved_heads(layers: Iterable[Any]) -> list[int]:
    """List the widths of attention heads that vLLM 0.32.0 accepts at start but cannot compute."""
    attentions = [layer for layer in layers if hasattr(layer, "attn_backend")]
    unserved = {each.head_size for each in attentions if not each.attn_backend.supports_head_size(each.head_size)}
    return sorted(unserved)


def select_rope(config: Any) -> dict[str, Any]:
    """Select the `ROPE` parameters of a model's configuration."""
    rope = getattr(config, "rope_parameters", None) or {}
    return {name: rope.get(name) for name in ROPE}


class Extension:
    """Methods that Turnsmith adds to a vLLM worker."""

    def turnsmith_settings(self) -> dict[str, Any]:
        """Return the settings of this server that affect sampling."""
        config = self.vllm_config  # type: ignore[attr-defined]
        model = config.model_config
        return {
            "version": vllm.__version__,
            "device": self.device.type,  # type: ignore[attr-defined]
            "dtype": str(model.dtype).removeprefix("torch."),
            "max_model_len": model.max_model_len,
            "shape": {name: getattr(model.hf_text_config, name) for name in SHAPE},
            "rope": select_rope(model.hf_text_config),
            "logprobs_mode": str(getattr(model.logprobs_mode, "value", model.logprobs_mode)),
            "sampling_defaults": model.get_diff_sampling_param(),
            "prefix_caching": bool(config.cache_config.enable_prefix_caching),
            "num_workers": config.parallel_config.world_size,
            "quantization": model.quantization,
            "speculation": config.speculative_config is not None,
            "unserved_heads": list_unserved_heads(config.compilation_config.static_forward_context.values()),
        }

    def turnsmith_held(self) -> dict[str, int]:
        """Return the digests of the weights with which this worker's layers compute, by layer."""
        dtype = self.vllm_config.model_config.dtype  # type: ignore[attr-defined]
        with torch.inference_mode():
            return digest_layers(read_held(self.model_runner.get_model()), dtype)  # type: ignore[attr-defined]


WeightTransferEngineFactory.register_engine(NAME, FileTransport)
