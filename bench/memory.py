"""Measure what each memory feature of `[trainer]` saves and costs in one optimizer step on a CPU.

    OMP_NUM_THREADS=1 python bench/memory.py [--tokens 2048] [--steps 3]

The model is random: 16 layers of width 128 with MLPs of width 512, and a vocabulary of 512. The table shows the peak of
torch's CPU allocator during the step, without weights and moments, and CPU seconds, the median of the timed steps. Offloaded
inputs count as host memory, which lies outside the allocator here.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from peak_memory import peak_bytes
from turnsmith.config import OptimizerConfig, TrainerConfig
from turnsmith.engines.torch import attention
from turnsmith.training.activations import offload
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.model import logprobs_of_sampled
from turnsmith.training.optimizer import make_optimizer
from turnsmith.types import MicroBatch, Sample

SETTINGS: dict[str, dict[str, Any]] = {
    "none": {},
    "full": {"activation_checkpointing": "full"},
    "selective": {"activation_checkpointing": "selective"},
    "full, offload": {"activation_checkpointing": "full", "offload_activations": True},
    "mlp_tiles = 8": {"mlp_tiles": 8},
    "full, mlp_tiles = 8": {"activation_checkpointing": "full", "mlp_tiles": 8},
    "moments = bfloat16": {"moments": "bfloat16"},
    "moments = 8bit": {"moments": "8bit"},
    "moments = host": {"moments": "host"},
    "all": {
        "activation_checkpointing": "selective", "offload_activations": True, "mlp_tiles": 8, "moments": "8bit",
    },
}  # fmt: skip
MODEL = {
    "vocab_size": 512, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 16, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 131_072, "tie_word_embeddings": True,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=2_048, help="tokens of the sample")
    parser.add_argument("--steps", type=int, default=3, help="timed steps")
    arguments = parser.parse_args()
    offload.allocate_on_host = allocate_elsewhere
    print(f"{'setting':22} {'peak, MiB':>10} {'CPU s':>8}")
    for name, setting in SETTINGS.items():
        step = make_step(TrainerConfig.model_validate(setting), arguments.tokens)
        step()
        seconds = statistics.median(measure_seconds(step) for _ in range(arguments.steps))
        print(f"{name:22} {peak_bytes(step) / 2**20:10.1f} {seconds:8.2f}", flush=True)


def allocate_elsewhere(tensor: Tensor) -> Tensor:
    """Allocate host memory that the measured peak does not count."""
    return torch.from_numpy(np.empty(tensor.shape, np.float32))


def make_step(config: TrainerConfig, num_tokens: int) -> Callable[[], None]:
    """Return a function that makes one optimizer step on one sample, with 15 % of its tokens in the loss."""
    torch.manual_seed(0)
    model_config = AutoConfig.for_model("qwen2", **MODEL)
    model = AutoModelForCausalLM.from_config(model_config, attn_implementation=attention.NAME).eval()
    limit_activations(model, config)
    optimizer = make_optimizer(model, OptimizerConfig(), config.moments)
    sample = make_sample(num_tokens)

    def step() -> None:
        (-logprobs_of_sampled(model, MicroBatch([sample])).mean()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def make_sample(num_tokens: int) -> Sample:
    rng = random.Random(0)
    mask = np.array([False] + [rng.random() < 0.15 for _ in range(num_tokens - 1)])
    token_ids = np.array([rng.randrange(MODEL["vocab_size"]) for _ in range(num_tokens)])
    zeros = np.zeros(num_tokens, np.float32)
    return Sample("a", "g", token_ids, mask, zeros, zeros)


def measure_seconds(step: Callable[[], None]) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


if __name__ == "__main__":
    main()
