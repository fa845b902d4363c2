"""Tiny model and sample maker for the training tests."""

import random
from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from support.models.small_models import VOCABULARY, make_model
from turnsmith.types import Sample, add_tokenizer_provenance

# Use one thread: tiny tensors gain nothing from a second one.
torch.set_num_threads(1)


def _sample(seed: int, length: int | None = None, vocabulary: int = VOCABULARY) -> Sample:
    """Make random tokens, about a quarter of them in the loss, never the first."""
    rng = random.Random(seed)
    length = length or rng.randint(2, 40)
    mask = [False] + [rng.random() < 0.25 for _ in range(length - 2)] + [True]
    sample = Sample(
        trajectory_id=f"t{seed}",
        group_id="g",
        token_ids=[rng.randrange(vocabulary) for _ in range(length)],
        loss_mask=mask,
        sampled_logprobs=[-rng.random() * 4 if is_in_loss else 0.0 for is_in_loss in mask],
        advantages=[rng.uniform(-2, 2)] * length,
    )
    return add_tokenizer_provenance(sample)


@pytest.fixture(name="make_model")
def model_maker() -> Callable[..., PreTrainedModel]:
    return make_model


@pytest.fixture
def make_sample() -> Callable[..., Sample]:
    return _sample


@pytest.fixture
def model() -> PreTrainedModel:
    return make_model()


@pytest.fixture
def samples() -> list[Sample]:
    return [_sample(seed) for seed in range(12)]
