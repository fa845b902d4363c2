"""Settings of a vLLM server for sampling from the unfiltered policy: passed at its start, and checked once it runs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from transformers import PretrainedConfig

from turnsmith.engines.vllm.server import SUPPORTED
from turnsmith.errors import UsageError

SHAPE = ("vocab_size", "hidden_size", "num_hidden_layers")
"""Configuration keys whose values must be equal in policy and server model; keep equal to `turnsmith_vllm.transport.SHAPE`."""


ROPE = ("rope_type", "factor", "original_max_position_embeddings")
"""Parameters of the rotary embedding that must be equal in policy and server; keep equal to `turnsmith_vllm.transport.ROPE`."""
POSITIONS = ("rope_parameters", "max_position_embeddings")
"""Configuration keys that a context extension changes."""


@dataclass(frozen=True)
class ServerRequirements:
    """Requirements of a run for its vLLM servers."""

    directory: Path
    """Directory of the base model. A server reads only its configuration; the weights come from the trainer."""
    model: PretrainedConfig
    """Configuration of the policy, after `model.rope_scaling`."""
    dtype: str
    """Number format of the weights: `float32` or `bfloat16`."""
    max_context: int
    num_episodes: int
    """Maximum number of turns that a server samples at once."""
    kv_bytes: int
    """Bytes of KV cache per server."""
    seed: int
    is_extended: bool = False
    """True if `model` has another context extension than the configuration in `directory`."""
    sleeps: bool = False
    """True if servers free their memory while the trainer computes."""

    @property
    def shape(self) -> dict[str, int]:
        text = self.model.get_text_config()
        return {name: getattr(text, name) for name in SHAPE}

    @property
    def rope(self) -> dict[str, Any]:
        """Return the kind of rotary embedding, and the context extension if there is one."""
        return select_rope(self.model.get_text_config())

    @property
    def torch_dtype(self) -> torch.dtype:
        return cast(torch.dtype, getattr(torch, self.dtype))

    @property
    def vocabulary(self) -> int:
        return self.shape["vocab_size"]


def select_rope(config: PretrainedConfig) -> dict[str, Any]:
    """Select the `ROPE` parameters of a model's configuration."""
    rope = getattr(config, "rope_parameters", None) or {}
    return {name: rope.get(name) for name in ROPE}


def override_rope(config: PretrainedConfig) -> dict[str, Any]:
    """Return the entries of a model's configuration that set its rotary embedding and its number of positions."""
    return {name: getattr(config, name) for name in POSITIONS if getattr(config, name, None) is not None}


def list_arguments(required: ServerRequirements, *, eager: bool, more: Sequence[str]) -> list[str]:
    """Return the command-line arguments of a vLLM server, except those of its socket or address."""
    settings = {
        "model": required.directory,
        "dtype": required.dtype,
        "max-model-len": required.max_context,
        "max-num-seqs": required.num_episodes,
        "kv-cache-memory-bytes": required.kv_bytes,
        "seed": required.seed,
        "load-format": "dummy",  # all weights come from Turnsmith
        "generation-config": "vllm",  # not the model repository's
        "logprobs-mode": "raw_logprobs",
        "weight-transfer-config": json.dumps({"backend": "turnsmith"}),
        "worker-extension-cls": "turnsmith_vllm.transport.Extension",
    }
    switches = [
        "--enable-prefix-caching",
        "--enable-scale-out",
        "--skip-tokenizer-init",
        "--disable-uvicorn-access-log",
    ]
    named = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    if required.is_extended:
        named += ["--hf-overrides", json.dumps(override_rope(required.model))]
    return [*named, *switches, *(["--enforce-eager"] if eager else []), *more]


def check_settings(reported: dict[str, Any], required: ServerRequirements, where: str) -> None:
    """Raise UsageError if a server's settings would change the sampled distribution or its context is too short."""
    problem = find_problem(reported, required)
    if problem:
        raise UsageError(f"vLLM at {where} {problem}")


def find_problem(reported: dict[str, Any], required: ServerRequirements) -> str:
    """Describe the first wrong setting of a server and its remedy; empty if all settings are right."""
    if not reported["version"].startswith(SUPPORTED):
        return f"has version {reported['version']}: install {SUPPORTED}*"
    if reported["shape"] != required.shape:
        return f"serves another model ({reported['shape']}) than {required.directory} ({required.shape}): start it with that"
    if reported["max_model_len"] < required.max_context:
        return (
            f"has a context of {reported['max_model_len']} tokens, and max_context is {required.max_context}: raise its "
            "--max-model-len, or lower max_context"
        )
    if reported["rope"] != required.rope:
        return (
            f"rotates positions by {reported['rope']}, and the policy by {required.rope}: start it with --hf-overrides "
            f"'{json.dumps(override_rope(required.model))}'"
        )
    if reported["unserved_heads"]:
        return (
            f"cannot compute attention heads of width {reported['unserved_heads'][0]}, which {required.directory} has: sample "
            'this model with engine.kind = "inprocess"'
        )
    must = {
        "dtype": (required.dtype, f"with --dtype {required.dtype}, as model.dtype says"),
        "logprobs_mode": ("raw_logprobs", "with --logprobs-mode raw_logprobs"),
        "sampling_defaults": ({}, "with --generation-config vllm and without --override-generation-config"),
        "prefix_caching": (True, "with --enable-prefix-caching"),
        "quantization": (None, "without --quantization"),
        "speculation": (False, "without --speculative-config"),
    }
    for name, (value, remedy) in must.items():
        if reported[name] != value:
            return f"is set to {name} = {reported[name]}: start it {remedy}"
    return ""
