"""Configuration of a model directory: reading, refusal of unsupported models, and YaRN, which extends the context."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoConfig, PretrainedConfig

from turnsmith.config import RopeScaling
from turnsmith.errors import UsageError

UNSUPPORTED_FIELDS = ("final_logit_softcapping", "attn_logit_softcapping", "logit_scale", "logits_scaling")
"""Fields of a model's configuration that change logits or attention in ways that trainer and engine do not support."""
KEPT_FIELDS = ("rope_theta", "partial_rotary_factor")
"""Fields of a model's rotary embedding that YaRN keeps."""


def read_config(directory: Path, scaling: RopeScaling | None = None) -> PretrainedConfig:
    """Read the configuration of a model directory, with the context extension `scaling` if given. Raises UsageError."""
    with report_model_errors(directory):
        config = AutoConfig.from_pretrained(directory)
    if scaling:
        extend_context(config, scaling, directory)
    return config


def extend_context(config: PretrainedConfig, scaling: RopeScaling, directory: Path) -> None:
    """Extend a model's context by YaRN (arXiv 2309.00071), in place. Raises UsageError for a model without plain RoPE."""
    rope: dict[str, Any] = getattr(config, "rope_parameters", None) or {}
    if "rope_theta" not in rope:
        raise UsageError(
            f"model.rope_scaling extends one rotary embedding, and the model at {directory} has none or several: "
            "remove the key, or use another model"
        )
    recorded = rope.get("original_max_position_embeddings", config.max_position_embeddings)
    original = scaling.original_max_position_embeddings or recorded
    config.max_position_embeddings = round(scaling.factor * original)
    config.rope_parameters = {name: rope[name] for name in KEPT_FIELDS if name in rope} | {
        "rope_type": scaling.rope_type,
        "factor": scaling.factor,
        "original_max_position_embeddings": original,
    }


def check_supported(config: PretrainedConfig, directory: Path) -> None:
    """Raise UsageError if a model has features that trainer and engine do not compute, such as a sliding window."""
    config = config.get_text_config()  # models that also take images keep the fields of their text part there
    fields = [name for name in UNSUPPORTED_FIELDS if getattr(config, name, None) not in (None, 1.0)]
    # Qwen2 configures a window but leaves it off; Mistral has no switch, so its window is in use.
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        fields.append(f"sliding_window {config.sliding_window}")
    kinds = set(getattr(config, "layer_types", None) or []) - {"full_attention"}
    if fields or kinds:
        faults = ", ".join([*fields, *sorted(kinds)])
        raise UsageError(
            f"the model at {directory} uses {faults}, which is not supported: use a model with plain causal attention"
        )


@contextmanager
def report_model_errors(directory: Path) -> Iterator[None]:
    """Convert transformers' errors about a model, raised in the `with` block, to a UsageError that names its directory."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(f"the model at {directory} cannot be used: {reason}: give another model") from error
