"""Activation checkpointing: equal gradients, less memory, and no second attention with `selective`."""

from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from support.models.gradients import score_and_differentiate
from support.models.small_models import make_model
from support.peak_memory import peak_bytes
from turnsmith.errors import UsageError
from turnsmith.training.activations.checkpointing import ATTENTION, recompute_layers

KINDS = {"full": False, "selective": True}
"""Value of `trainer.activation_checkpointing` → `is_selective`."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "gpt2"])
@pytest.mark.parametrize("is_selective", KINDS.values(), ids=KINDS)
def test_log_probs_and_gradients_are_bit_identical(kind, is_selective, dtype, samples):
    plain, thrifty = make_model(kind), make_model(kind)
    recompute_layers(thrifty, is_selective=is_selective)
    expected = score_and_differentiate(plain, samples, dtype)
    found = score_and_differentiate(thrifty, samples, dtype)
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


class CountedAttention(TorchDispatchMode):
    """Counts of the calls of attention kernels."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def __torch_dispatch__(self, kernel, types, args=(), kwargs=None):
        self.calls["attention"] += kernel in ATTENTION
        return kernel(*args, **kwargs or {})


@pytest.mark.parametrize(("kind", "num_calls"), [("full", 4), ("selective", 2)])
def test_selective_computes_attention_once_per_layer(kind, num_calls, make_sample):
    model = make_model()
    recompute_layers(model, is_selective=KINDS[kind])
    with CountedAttention() as counted:
        score_and_differentiate(model, [make_sample(0)])
    assert counted.calls["attention"] == num_calls


def test_memory_falls_from_none_over_selective_to_full(make_sample):
    sample, peaks = make_sample(0, length=2_000), {}
    for kind in ("none", *KINDS):
        model = make_model(num_hidden_layers=12, intermediate_size=128)
        if kind in KINDS:
            recompute_layers(model, is_selective=KINDS[kind])
        peaks[kind] = peak_bytes(lambda model=model: score_and_differentiate(model, [sample]))
    assert peaks["full"] < 0.9 * peaks["selective"] < 0.4 * peaks["none"], peaks


def test_a_model_without_layers_that_transformers_can_recompute_is_refused():
    with pytest.raises(UsageError, match="activation_checkpointing cannot find the layers of Linear: set it to none"):
        recompute_layers(nn.Linear(2, 2))
