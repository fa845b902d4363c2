"""Server's side of a weight transfer: vLLM loads the weights that the trainer's process broadcasts, chunk by chunk.

Importing this module registers the transport with vLLM. The option `--worker-extension-cls` with `Extension` imports the
module in every worker.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import vllm
from turnsmith_vllm.digests import add_digests, digest_layers, read_held
from turnsmith_vllm.group import WeightGroup, connect
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
class GroupInit(WeightTransferInitInfo):
    """Message that tells the workers of a server how to join the group of their sender."""

    host: str
    """IP address of the sender."""
    port: int
    backend: str
    """`gloo` or `nccl`."""
    size: int
    """Number of workers plus one."""


@dataclass
class GroupUpdate(WeightTransferUpdateInfo):
    """Message that announces the weights of one chunk, in the order of their broadcasts."""

    names: list[str]
    shapes: list[list[int]]
    dtype: str
    """Number format of all weights of the chunk, such as `float32`."""
    is_digested: bool
    """True if the workers shall digest the weights as they arrive."""


class GroupTransport(WeightTransferEngine[GroupInit, GroupUpdate]):
    """Weight transport for vLLM that receives weights through a process group."""

    init_info_cls = GroupInit
    update_info_cls = GroupUpdate

    group: WeightGroup | None = None
    arrived: dict[str, int]
    """Layer digests of the weights that arrived in the current update, if they are digested."""

    def init_transfer_engine(self, init_info: GroupInit) -> None:
        """Join the sender's group, in place of an earlier one."""
        self.shutdown()
        device = self.device if init_info.backend == "nccl" else torch.device("cpu")
        rank = 1 + self.parallel_config.rank
        self.group = WeightGroup(
            init_info.backend, device, connect(init_info.host, init_info.port), rank, init_info.size
        )

    def start_weight_update(self) -> None:
        """Prepare the layers for new weights."""
        self.arrived = {}
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load one chunk. Unlike the base class, wait for the device only if it is an accelerator."""
        self.receive_weights(self.parse_update_info(update_info))
        if self.device.type != "cpu":
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: GroupUpdate) -> None:
        """Load one chunk. After an error, leave the group, so that the sender does not wait, and end the update."""
        try:
            self._load(update_info)
        except BaseException:
            self.shutdown()
            finalize_layerwise_reload(self.model, self.model_config)
            raise

    def _load(self, update_info: GroupUpdate) -> None:
        if self.group is None:
            raise RuntimeError("no trainer is connected")
        dtype = getattr(torch, update_info.dtype)
        weights = list(zip(update_info.names, self.group.receive(update_info.shapes, dtype), strict=True))
        if update_info.is_digested:
            add_digests(self.arrived, digest_layers(weights, dtype))
        self.model.load_weights(weights)

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        pack_heads(self.model)

    def shutdown(self) -> None:
        """Leave the group."""
        self.group = None


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

    def turnsmith_arrived(self) -> dict[str, int]:
        """Return the digests of the weights that arrived in the last update, by layer."""
        return self.weight_transfer_engine.arrived  # type: ignore[attr-defined]


WeightTransferEngineFactory.register_engine(NAME, GroupTransport)
