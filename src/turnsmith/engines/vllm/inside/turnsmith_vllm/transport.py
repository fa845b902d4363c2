"""How weights come in: a safetensors file that both sides map into memory, behind vLLM's interface of four phases.

Importing this module registers the transport; naming `Extension` as `--worker-extension-cls` imports it in every worker.
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
"""What tells one model from another before any weight travels."""


@dataclass
class FileInit(WeightTransferInitInfo):
    """Nothing has to be agreed on beforehand."""


@dataclass
class FileUpdate(WeightTransferUpdateInfo):
    """Where all weights lie, and what they are."""

    path: str
    """A safetensors file."""
    digests: dict[str, str]
    """Of each weight, `digest_bytes` of what the sender had in its memory."""


class FileTransport(WeightTransferEngine[FileInit, FileUpdate]):
    """Loads all weights of a file, once they are known to be those that were sent."""

    init_info_cls = FileInit
    update_info_cls = FileUpdate

    def init_transfer_engine(self, init_info: FileInit) -> None:
        """Nothing has to be opened."""

    def start_weight_update(self) -> None:
        """The model stays as it is until the file is known to be good."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """As the base class, which then waits for an accelerator that a CPU has not."""
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
        """Nothing is open."""


def check_arrived(weights: dict[str, torch.Tensor], digests: dict[str, str]) -> None:
    """Raise ValueError unless these are the weights that were sent, byte by byte."""
    if weights.keys() != digests.keys():
        raise ValueError(f"{len(weights)} weights arrived, and {len(digests)} were sent")
    for name, tensor in weights.items():
        if digest_bytes(tensor) != digests[name]:
            raise ValueError(f"the weight {name} did not arrive as it was sent")


def pack_heads(model: torch.nn.Module) -> None:
    """Pack what shares its weight with another layer anew.

    On a CPU a head that is tied to the embedding multiplies by a packed copy; vLLM 0.32.0 loads the embedding, finds nothing to
    load for the head, and leaves it the copy of the weights before.
    """
    layers: Iterable[Any] = model.modules()
    for module in layers:
        if hasattr(module, "cpu_linear") and module.weight.numel():
            module.quant_method.process_weights_after_loading(module)


def list_unserved_heads(layers: Iterable[Any]) -> list[int]:
    """Widths of heads that vLLM's attention cannot compute; it takes them in 0.32.0, and dies at the first turn."""
    attentions = [layer for layer in layers if hasattr(layer, "attn_backend")]
    unserved = {each.head_size for each in attentions if not each.attn_backend.supports_head_size(each.head_size)}
    return sorted(unserved)


class Extension:
    """What a worker of vLLM can be asked beyond its own methods."""

    def turnsmith_settings(self) -> dict[str, Any]:
        """What decides how this server samples."""
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
        """Digests of what the layers compute with now."""
        dtype = self.vllm_config.model_config.dtype  # type: ignore[attr-defined]
        with torch.inference_mode():
            return digest_layers(read_held(self.model_runner.get_model()), dtype)  # type: ignore[attr-defined]


WeightTransferEngineFactory.register_engine(NAME, FileTransport)
