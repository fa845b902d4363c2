"""How a server has to be set so that what it samples is the policy, told to the one that we start, asked of each."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig

from turnsmith.engines.vllm.server import SUPPORTED
from turnsmith.errors import UsageError

SHAPE = ("vocab_size", "hidden_size", "num_hidden_layers")
"""Keys of a model's configuration that tell models apart; `inside` names the same."""


@dataclass(frozen=True)
class Wanted:
    """What a run needs of an engine."""

    directory: Path
    """Of the base model; a server takes its configuration from there, and its weights from us."""
    model: PretrainedConfig
    dtype: str
    """`float32` or `bfloat16`."""
    max_context: int
    num_episodes: int
    """Turns that are sampled at once, at most."""
    kv_bytes: int
    """Memory for keys and values of each server."""
    seed: int

    @property
    def shape(self) -> dict[str, int]:
        text = self.model.get_text_config()
        return {name: getattr(text, name) for name in SHAPE}

    @property
    def vocabulary(self) -> int:
        return self.shape["vocab_size"]


def list_arguments(wanted: Wanted, socket: Path, *, eager: bool, more: Sequence[str]) -> list[str]:
    """The command line of a server."""
    settings = {
        "model": wanted.directory,
        "uds": socket,
        "dtype": wanted.dtype,
        "max-model-len": wanted.max_context,
        "max-num-seqs": wanted.num_episodes,
        "kv-cache-memory-bytes": wanted.kv_bytes,
        "seed": wanted.seed,
        "load-format": "dummy",  # all weights come from us
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
    return [*named, *switches, *(["--enforce-eager"] if eager else []), *more]


def check_settings(told: dict[str, Any], wanted: Wanted, where: str) -> None:
    """Raise UsageError for a server that would not sample from the policy, or not as long as a trajectory may be."""
    problem = find_problem(told, wanted)
    if problem:
        raise UsageError(f"vLLM at {where} {problem}")


def find_problem(told: dict[str, Any], wanted: Wanted) -> str:
    """What is wrong with a server's settings and what to do about it, or ''."""
    if not told["version"].startswith(SUPPORTED):
        return f"has version {told['version']}: install {SUPPORTED}*"
    if told["shape"] != wanted.shape:
        return (
            f"serves another model ({told['shape']}) than {wanted.directory} ({wanted.shape}): start it with that one"
        )
    if told["max_model_len"] < wanted.max_context:
        return (
            f"has a context of {told['max_model_len']} tokens, and max_context is {wanted.max_context}: raise its "
            "--max-model-len, or lower max_context"
        )
    if told["unserved_heads"]:
        return (
            f"has no attention for heads of {told['unserved_heads'][0]} numbers, which {wanted.directory} has: sample it by "
            'engine.kind = "inprocess"'
        )
    must = {
        "dtype": (wanted.dtype, f"--dtype {wanted.dtype}, as model.dtype says"),
        "logprobs_mode": ("raw_logprobs", "--logprobs-mode raw_logprobs"),
        "sampling_defaults": ({}, "--generation-config vllm and no --override-generation-config"),
        "prefix_caching": (True, "--enable-prefix-caching"),
        "quantization": (None, "without --quantization"),
        "speculation": (False, "without --speculative-config"),
    }
    for name, (value, remedy) in must.items():
        if told[name] != value:
            return f"is set to {name} = {told[name]}: start it with {remedy}"
    return ""
