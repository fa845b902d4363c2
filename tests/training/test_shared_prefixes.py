"""Shared prefixes: log-probs, losses and gradients compared with unshared samples."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.models.small_models import VOCABULARY
from turnsmith.algo.prefixes import find_families
from turnsmith.training.activations.checkpointing import recompute_layers
from turnsmith.training.merged_attention import AttentionCall, MergedAttention
from turnsmith.training.model import PackedLayout, logprobs_of_sampled
from turnsmith.training.shared_prefixes import SharedLayout, attend_by_kernel, attend_by_segment
from turnsmith.types import MicroBatch, Sample, add_tokenizer_provenance

CPU = torch.device("cpu")
SHAPES = {
    "several groups": [(20, [5, 9, 1, 30]), (0, [3, 8]), (7, [4, 4, 4])],
    "one sample": [(0, [9])],
    "equal samples": [(12, [0, 0, 0])],
    "one sample is the prefix": [(12, [0, 5, 3])],
    "no common token": [(0, [4, 6, 5])],
    "long prefix": [(150, [3, 2, 4])],
}
"""Prefix and further tokens of each sample, per group."""


def make_samples(shape, seed=0):
    """Make groups with common prefixes, and loss tokens anywhere but at the start, with other masks in each sample."""
    rng, samples = random.Random(seed), []
    for group, (prefix, suffixes) in enumerate(shape):
        common = [rng.randrange(VOCABULARY) for _ in range(prefix)]
        for member, suffix in enumerate(suffixes):
            # The first token after the prefix differs, so that no more tokens are common.
            token_ids = [*common, *[member, *(rng.randrange(VOCABULARY) for _ in range(suffix))][:suffix]]
            mask = [False, *(rng.random() < 0.4 for _ in token_ids[2:]), True][: len(token_ids)]
            values = [rng.uniform(-2, 2) for _ in token_ids]
            sample = Sample(f"{group}-{member}", f"g{group}", token_ids, mask, [0.0] * len(token_ids), values)
            samples.append(add_tokenizer_provenance(sample))
    return samples


def weighted_logprobs(model, samples, dtype=torch.float32, *, share):
    """Return log-probs by trajectory, and gradients of their sum weighted by advantages."""
    model.zero_grad()
    micro_batch = MicroBatch(samples, share_prefixes=share)
    logprobs = logprobs_of_sampled(model, micro_batch, dtype)
    weights = torch.from_numpy(micro_batch.column("advantages")[micro_batch.column("loss_mask")])
    (logprobs * weights).sum().backward()
    return logprobs.detach(), [parameter.grad.clone() for parameter in model.parameters()]


def relative_error(gradients, expected):
    """Return the largest difference of a parameter's gradient, relative to the norm of that gradient."""
    return max(((a - b).norm() / b.norm()).item() for a, b in zip(gradients, expected, strict=True) if b.norm() > 1e-6)


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama", "mistral"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_logprobs_and_gradients_equal_those_of_unshared_samples(kind, shape, make_model):
    model, samples = make_model(kind, **{"sliding_window": None} if kind == "mistral" else {}), make_samples(shape)
    logprobs, gradients = weighted_logprobs(model, samples, share=True)
    expected, expected_gradients = weighted_logprobs(model, samples, share=False)
    torch.testing.assert_close(logprobs, expected, rtol=0, atol=1e-5)
    assert relative_error(gradients, expected_gradients) < 1e-5


def test_layers_compute_each_prefix_once(make_model):
    model, samples, seen = make_model(), make_samples(SHAPES["several groups"]), []
    model.model.layers[0].mlp.register_forward_hook(lambda module, inputs, output: seen.append(output.size(1)))
    weighted_logprobs(model, samples, share=True)
    assert seen == [20 + 45 + 11 + 7 + 12]


@pytest.mark.parametrize("is_selective", [False, True])
def test_recomputed_layers_keep_values_and_gradients(is_selective, make_model):
    model, samples = make_model(), make_samples(SHAPES["several groups"])
    expected, expected_gradients = weighted_logprobs(model, samples, share=True)
    recompute_layers(model, is_selective=is_selective)
    logprobs, gradients = weighted_logprobs(model, samples, share=True)
    assert torch.equal(logprobs, expected)
    assert relative_error(gradients, expected_gradients) < 1e-6


def test_in_bfloat16_shared_samples_are_as_exact_as_unshared_ones(make_model):
    model, samples = make_model(), make_samples(SHAPES["several groups"])
    exact, exact_gradients = weighted_logprobs(model, samples, share=False)
    shared, shared_gradients = weighted_logprobs(model, samples, torch.bfloat16, share=True)
    unshared, unshared_gradients = weighted_logprobs(model, samples, torch.bfloat16, share=False)
    assert (shared - exact).abs().mean() < 1.5 * (unshared - exact).abs().mean()
    assert relative_error(shared_gradients, exact_gradients) < 1.5 * relative_error(unshared_gradients, exact_gradients)


groups = st.lists(
    st.tuples(st.integers(0, 12), st.lists(st.integers(0, 8), min_size=1, max_size=4)), min_size=1, max_size=3
)
rows = groups.filter(lambda shape: all(prefix + suffix for prefix, suffixes in shape for suffix in suffixes))


def attend_unshared(layout, samples, query, key, value):
    """Compute the attention of each sample alone, and gather the row's tokens."""
    alone = PackedLayout([len(sample) for sample in samples], CPU)
    output = alone.attend(0, *(tensor[:, :, layout.places] for tensor in (query, key, value)), 0.3)
    _, first = np.unique(layout.places.numpy(), return_index=True)
    return output[:, first]


def attend_by_shared_kernel(query, key, value, queries, keys, scaling):
    """Compute the result of the CUDA kernel in plain torch, `[tokens, heads, head_dim]` in and out."""
    outputs = []
    for (start, end), (first, last) in zip(
        queries.offsets.unfold(0, 2, 1).tolist(), keys.offsets.unfold(0, 2, 1).tolist(), strict=True
    ):
        q, k, v = query[start:end], key[first:last], value[first:last]
        k, v = (each.repeat_interleave(q.size(1) // each.size(1), 1) for each in (k, v))
        scores = scaling * torch.einsum("qhd,khd->hqk", q, k)
        hidden = torch.ones(len(q), len(k), dtype=torch.bool).triu(len(k) - len(q) + 1)
        outputs.append(torch.einsum("hqk,khd->qhd", scores.masked_fill(hidden, -torch.inf).softmax(-1), v))
    assert keys.longest == keys.offsets.diff().max() and queries.longest == queries.offsets.diff().max()
    return torch.cat(outputs)


@settings(max_examples=60, deadline=None)
@given(rows, st.sampled_from(["cpu", "kernel", "segments"]), st.integers(1, 3), st.integers(0, 99))
def test_each_implementation_equals_attention_of_whole_samples(shape, implementation, num_parts, seed):
    """The queries of the row are computed in parts, as on several ranks."""
    samples = make_samples(shape, seed)
    layout = SharedLayout(find_families(samples), CPU)
    torch.manual_seed(seed)
    inputs = [torch.randn(1, heads, len(layout.position_ids), 8, requires_grad=True) for heads in (4, 2, 2)]
    query, key, value = inputs
    pieces = query.tensor_split(num_parts, dim=2)
    starts = np.cumsum([0, *(piece.size(2) for piece in pieces)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnsmith.training.shared_prefixes.attend_packed", attend_by_shared_kernel)
        if implementation != "cpu":
            attend = {"kernel": attend_by_kernel, "segments": attend_by_segment}[implementation]
            patch.setattr("turnsmith.training.shared_prefixes.attend_by_calls", attend)
        outputs = [
            layout.attend_from(int(start), piece, key, value, 0.3)
            for start, piece in zip(starts, pieces, strict=False)
            if piece.size(2)
        ]
    output = torch.cat(outputs, dim=1)
    expected = attend_unshared(layout, samples, *inputs)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)
    gradient = torch.randn_like(output)
    found, right = (torch.autograd.grad(each, inputs, gradient) for each in (output, expected))
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)


def test_merged_attention_has_exact_gradients_in_float64():
    inputs = [torch.randn(1, heads, 11, 4, dtype=torch.float64, requires_grad=True) for heads in (4, 2, 2)]
    causal = [AttentionCall(tokens, tokens, is_causal=True) for tokens in (range(4), range(4, 8), range(8, 11))]
    calls = [*causal, AttentionCall(range(4, 11), range(4), is_causal=False)]
    assert torch.autograd.gradcheck(lambda *tensors: MergedAttention.apply(*tensors, calls, 0.4), inputs)
