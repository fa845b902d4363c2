"""A tiny model and a maker of samples for the training tests."""

import random
from collections.abc import Callable

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from turnsmith.engines import attention
from turnsmith.types import Sample

# Tiny tensors on shared cores: a second thread only waits at barriers.
torch.set_num_threads(1)

VOCABULARY = 61
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
}


def _model(kind: str = "qwen2", seed: int = 0, **changes: object) -> PreTrainedModel:
    """A random model with weights large enough that its distribution is far from uniform."""
    torch.manual_seed(seed)
    sizes = SIZES | {"initializer_range": 0.3, "attn_implementation": attention.NAME} | changes
    if kind == "qwen2":
        return Qwen2ForCausalLM(Qwen2Config(tie_word_embeddings=True, **sizes)).eval()
    return LlamaForCausalLM(LlamaConfig(**sizes)).eval()


def _sample(seed: int, length: int | None = None, vocabulary: int = VOCABULARY) -> Sample:
    """Random tokens of which about a quarter are in the loss; never the first."""
    rng = random.Random(seed)
    length = length or rng.randint(2, 40)
    mask = [False] + [rng.random() < 0.25 for _ in range(length - 2)] + [True]
    return Sample(
        trajectory_id=f"t{seed}",
        token_ids=[rng.randrange(vocabulary) for _ in range(length)],
        loss_mask=mask,
        sampled_logprobs=[-rng.random() * 4 if is_in_loss else 0.0 for is_in_loss in mask],
        advantages=[rng.uniform(-2, 2)] * length,
    )


@pytest.fixture
def make_model() -> Callable[..., PreTrainedModel]:
    return _model


@pytest.fixture
def make_sample() -> Callable[..., Sample]:
    return _sample


@pytest.fixture
def model() -> PreTrainedModel:
    return _model()


@pytest.fixture
def samples() -> list[Sample]:
    return [_sample(seed) for seed in range(12)]
