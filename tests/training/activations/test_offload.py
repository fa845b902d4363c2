"""Offload of layer inputs: what leaves, when it returns, and the memory that it frees."""

import gc
import weakref

import numpy as np
import pytest
import torch

from support.models.gradients import score_and_differentiate
from support.models.small_models import make_model
from support.peak_memory import peak_bytes
from turnsmith.config import TrainerConfig
from turnsmith.training.activations import offload
from turnsmith.training.activations.checkpointing import limit_activations, recompute_layers
from turnsmith.training.activations.offload import HostOffload


@pytest.fixture
def host(monkeypatch):
    """Let "host memory" lie outside torch's allocator, whose memory then stands for the device. Return weak references."""
    tensors = []

    def allocate(tensor):
        assert tensor.dtype == torch.float32
        tensors.append(weakref.ref(memory := torch.from_numpy(np.empty(tensor.shape, np.float32))))
        return memory

    monkeypatch.setattr(offload, "allocate_on_host", allocate)
    return tensors


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "gpt2"])
@pytest.mark.parametrize("checkpointing", ["full", "selective"])
def test_log_probs_and_gradients_are_bit_identical(kind, checkpointing, dtype, samples):
    plain, thrifty = make_model(kind), make_model(kind)
    limit_activations(thrifty, TrainerConfig(activation_checkpointing=checkpointing, offload_activations=True))
    expected = score_and_differentiate(plain, samples, dtype)
    found = score_and_differentiate(thrifty, samples, dtype)
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


def test_each_layer_input_leaves_once_and_is_freed_after_the_backward_pass(host, samples):
    model = make_model(num_hidden_layers=5)
    recompute_layers(model, offload=True)
    for micro_batch in (1, 2):
        score_and_differentiate(model, samples)
        gc.collect()
        assert len(host) == 5 * micro_batch
        assert [reference() for reference in host] == [None] * len(host)


def test_the_next_layer_input_returns_ahead_of_its_use():
    store, originals = HostOffload(), [torch.randn(3) for _ in range(4)]
    offloaded = [store.pack(tensor) for tensor in originals]
    for place in (3, 2, 1, 0):
        assert torch.equal(store.unpack(offloaded[place]), originals[place])
        assert [tensor.returned is not None for tensor in offloaded] == [at == place - 1 for at in range(4)]


def test_an_offloaded_tensor_is_a_copy_and_can_return_twice():
    store, original = HostOffload(), torch.ones(3)
    offloaded = store.pack(original)
    original.zero_()
    first, second = store.unpack(offloaded), store.unpack(offloaded)
    assert first.tolist() == second.tolist() == [1, 1, 1] and first.data_ptr() != second.data_ptr()


def test_an_empty_tensor_stays_on_its_device(host):
    values = torch.ones(3, requires_grad=True)
    HostOffload().checkpoint(
        lambda empty, values: 2 * values, torch.empty(0), values, use_reentrant=False
    ).sum().backward()
    assert len(host) == 1 and values.grad.tolist() == [2, 2, 2]


def test_offload_frees_the_memory_of_all_but_a_few_layer_inputs(host, make_sample):
    sample, peaks, num_layers = make_sample(0, length=2_000), {}, 24
    for is_offloaded in (False, True):
        model = make_model(num_hidden_layers=num_layers)
        recompute_layers(model, offload=is_offloaded)
        peaks[is_offloaded] = peak_bytes(lambda model=model: score_and_differentiate(model, [sample]))
    one_input = 2_000 * 32 * 4
    assert peaks[False] - peaks[True] > (num_layers - 6) * one_input, peaks
