"""Account of optimizer steps: counts, parts of the time, and merging of steps."""

import time
from functools import partial

import numpy as np
import pytest
import torch

from turnsmith.algo.losses import batch_denominator, nll_loss
from turnsmith.algo.packing import pack
from turnsmith.config import OptimizerConfig
from turnsmith.training.account import UPDATE, StepWork, count_work, describe_step, merge_accounts
from turnsmith.training.activations.checkpointing import recompute_layers
from turnsmith.training.flops import count_flops
from turnsmith.training.fsdp.trainer import merge_seconds
from turnsmith.training.local import LocalTrainer
from turnsmith.training.shape import find_shape
from turnsmith.training.stopwatch import Stopwatch
from turnsmith.types import Sample

CPU = torch.device("cpu")


async def take_step(model, samples):
    loss_fn = partial(nll_loss, denominator=batch_denominator(samples))
    return await LocalTrainer(model, OptimizerConfig()).step(pack(samples, 100), loss_fn)


async def test_a_step_counts_the_tokens_and_flops_of_its_samples(model, samples):
    before = time.perf_counter()
    step = await take_step(model, samples)
    elapsed = time.perf_counter() - before
    in_loss, lengths = sum(sample.num_loss_tokens for sample in samples), [len(sample) for sample in samples]
    assert [step["tokens/trained"], step["tokens/in_loss"], step["tokens/padding"]] == [sum(lengths), in_loss, 0]
    assert step["tokens/trained_per_s"] * step[UPDATE] == pytest.approx(sum(lengths))
    flops = count_flops(find_shape(model.config), lengths, in_loss)
    assert step["compute/tflops_per_rank"] * 1e12 * step[UPDATE] == pytest.approx(flops)
    assert 0 < step[UPDATE] <= elapsed
    assert "compute/mfu" not in step


def test_a_shared_prefix_counts_once(model, samples):
    shape, prefix, suffixes = find_shape(model.config), np.full(5, 3), [2, 4, 7]
    [first, *_] = samples
    columns = [(np.append(prefix, np.full(num, num)), np.arange(5 + num) >= 5, np.zeros(5 + num)) for num in suffixes]
    family = [Sample(f"t{at}", first.group_id, *each, np.ones(len(each[0]))) for at, each in enumerate(columns)]
    [micro_batch] = pack(family, 100, share_prefixes=True)
    work = count_work(shape, [micro_batch])
    assert (work.num_tokens, work.num_loss_tokens) == (5 + sum(suffixes), sum(suffixes))
    # Each pair of tokens of a sample attends once, except those of the prefix, which all samples share.
    half_pairs = 5**2 + sum(num**2 + 2 * num * 5 for num in suffixes)
    dense = shape.num_layers * shape.layer_matrices * work.num_tokens + shape.head_matrix * work.num_loss_tokens
    assert work.flops == pytest.approx(6 * (dense + shape.num_layers * shape.query_size * half_pairs))


@pytest.mark.parametrize("recompute", [False, True])
async def test_the_parts_of_a_step_fit_into_its_time(make_model, make_sample, recompute):
    model = make_model(vocab_size=5_000)
    if recompute:
        recompute_layers(model)
    step = await take_step(model, [make_sample(seed, 300) for seed in range(3)])
    parts = [step[f"time/{part}_s"] for part in ("attention", "head", "optimizer")]
    assert all(seconds > 0 for seconds in parts) and sum(parts) < step[UPDATE]


@pytest.mark.parametrize("num_outputs", [1, 3])
def test_a_stopwatch_measures_forward_and_backward_pass_of_its_part_alone(monkeypatch, num_outputs):
    """Let each operation of the test take one second forward and ten backward."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    class SlowIdentity(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensor):
            now[0] += 1
            return tensor.clone()

        @staticmethod
        def backward(ctx, gradient):
            now[0] += 10
            return gradient

    slow, stopwatch = SlowIdentity.apply, Stopwatch(CPU)
    start = slow(torch.ones(1, 4, requires_grad=True))
    outputs = stopwatch.measure_both_ways("part", lambda x: [slow(slow(x)) for _ in range(num_outputs)], start)
    slow(torch.cat(outputs)).sum().backward()
    assert now == [2 + 2 * num_outputs + 20 + 20 * num_outputs]
    assert stopwatch.read() == {"part": 22.0 * num_outputs}
    assert stopwatch.read() == {}


def test_a_merged_account_adds_up_work_and_weights_rates_by_time(model):
    shape = find_shape(model.config)
    works = [StepWork(sum(lengths), 7, 4, count_flops(shape, lengths, 7)) for lengths in ([100, 20], [300])]
    steps = [
        describe_step(work, {"update": seconds, "head": seconds / 4}, CPU, torch.float32, num_ranks=2)
        for work, seconds in zip(works, (2.0, 1.0), strict=True)
    ]
    merged = merge_accounts(steps)
    assert merged["tokens/trained"] == 420 and merged["tokens/padding"] == 8
    assert merged["tokens/trained_per_s"] == pytest.approx(420 / 3)
    assert merged["time/update_s"] == 3.0 and merged["time/head_s"] == 0.75
    assert merged["compute/tflops_per_rank"] == pytest.approx(sum(work.flops for work in works) / 3 / 2 / 1e12)


def test_seconds_of_ranks_are_means():
    assert merge_seconds([{"update": 2.0, "head": 1.0}, {"update": 4.0}]) == {"update": 3.0, "head": 0.5}


def test_steps_of_a_trainer_without_an_account_merge_to_nothing():
    assert merge_accounts([{"loss/total": 1.0}]) == {}
