"""Conformance of the sharded trainer on 1, 2 and 4 ranks with the trainer of one process."""

import asyncio
import dataclasses
import math
import re

import numpy as np
import pytest
import torch
from torch.distributed.tensor import DTensor

from support.sharded import (
    CPU,
    LOSSES,
    OPTIMIZER,
    Case,
    Outcome,
    make_batch,
    make_loss,
    make_sample,
    open_trainer,
    train_here,
    train_on_ranks,
)
from turnsmith.errors import ProvenanceError, TrainingError, UsageError
from turnsmith.training.account import leave_out_account
from turnsmith.training.fsdp.mesh import RankLayout, open_mesh
from turnsmith.training.fsdp.sharding import shard_model
from turnsmith.training.local import LocalTrainer
from turnsmith.types import MicroBatch, add_tokenizer_provenance

pytestmark = pytest.mark.slow

LAYOUTS = {
    "1 rank": RankLayout(1),
    "dp 2": RankLayout(2),
    "ulysses 2": RankLayout(2, cp=2),
    "gather 2": RankLayout(2, cp=2, cp_kind="gather"),
    "dp 4": RankLayout(4),
    "dp 2, ulysses 2": RankLayout(4, cp=2),
    "dp 2, gather 2": RankLayout(4, cp=2, cp_kind="gather"),
    "ulysses 4": RankLayout(4, cp=4),
    "gather 4": RankLayout(4, cp=4, cp_kind="gather"),
    "HSDP 2 × 2": RankLayout(4, dp_replicate=2),
    "HSDP 2, ulysses 2": RankLayout(4, cp=2, dp_replicate=2),
}
MODELS = {
    "Qwen2, tied": ("qwen2", {}),
    "Qwen2, untied": ("qwen2", {"tie_word_embeddings": False}),
    "Qwen3, tied": ("qwen3", {"head_dim": 16}),
    "Qwen3, one head of keys": ("qwen3", {"head_dim": 8, "num_key_value_heads": 1, "tie_word_embeddings": False}),
    "Llama, untied": ("llama", {}),
    "Mistral, tied": ("mistral", {"sliding_window": None}),
}


def check_equal(found: list[Outcome], expected: Outcome, tolerance: float = 1e-5) -> None:
    """Compare losses, gradient norms, all other metrics and the weights; all ranks return the same metrics."""
    for outcome in found:
        assert outcome.metrics == found[0].metrics
    for metrics, wanted in zip(found[0].metrics, expected.metrics, strict=True):
        assert leave_out_account(metrics) == pytest.approx(leave_out_account(wanted), rel=tolerance, abs=tolerance)
        assert metrics["tokens/trained"] == wanted["tokens/trained"] and metrics["time/waiting_s"] > 0
    assert found[0].weights.keys() == expected.weights.keys()
    for name, weight in expected.weights.items():
        torch.testing.assert_close(
            found[0].weights[name], weight, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )


def train_all(cases: list[Case]) -> list[Outcome]:
    return [train_on_ranks(case) for case in cases]


def compare(ranks, cases: list[Case]) -> None:
    """Train all cases, which have equally many ranks, in one call."""
    outcomes = ranks(cases[0].layout.num_ranks, train_all, cases)
    for index, case in enumerate(cases):
        check_equal([of_rank[index] for of_rank in outcomes], train_here(case))
        lengths = [sum(map(len, micro_batch.samples)) for micro_batch in make_batch()]
        padding = sum(-length % case.layout.row_multiple for length in lengths)
        assert outcomes[0][index].metrics[0]["tokens/padding"] == padding


@pytest.mark.parametrize("name", LAYOUTS)
def test_steps_equal_those_of_one_process_for_all_losses(ranks, name):
    compare(ranks, [Case(LAYOUTS[name], loss=loss) for loss in LOSSES])


@pytest.mark.parametrize("name", ["dp 2, ulysses 2", "gather 4", "ulysses 4", "HSDP 2 × 2"])
def test_steps_equal_those_of_one_process_for_all_models(ranks, name):
    compare(ranks, [Case(LAYOUTS[name], kind, changes, loss="gspo") for kind, changes in MODELS.values()])


def is_sharded(trainer) -> bool:
    """Return True if a trainer keeps no gathered weights, which a load would not replace."""
    return all(isinstance(each, DTensor) for each in trainer.model.parameters())


def measure(layout: RankLayout, micro_batches: list[MicroBatch]):
    trainer = open_trainer(Case(layout))
    rows = asyncio.run(trainer.logprobs(micro_batches))
    assert is_sharded(trainer)
    surprisal = asyncio.run(trainer.surprisal(micro_batches))
    assert is_sharded(trainer)
    loss_fn = make_loss("dapo", micro_batches)
    asyncio.run(trainer.step(micro_batches, loss_fn))
    return rows, surprisal, asyncio.run(trainer.logprobs(micro_batches))


@pytest.mark.parametrize("name", ["dp 2, ulysses 2", "gather 4"])
def test_log_probs_and_surprisal_equal_those_of_one_process(ranks, name):
    unused = dataclasses.replace(make_sample(99), loss_mask=np.zeros(len(make_sample(99)), bool))
    micro_batches = [*make_batch(), MicroBatch([add_tokenizer_provenance(unused)])]
    told = ranks(4, measure, LAYOUTS[name], micro_batches)
    trainer = LocalTrainer(Case().make_model(), OPTIMIZER)
    expected = [asyncio.run(trainer.logprobs(micro_batches))]
    surprisal = asyncio.run(trainer.surprisal(micro_batches))
    asyncio.run(trainer.step(make_batch(), make_loss("dapo", micro_batches)))
    expected.append(asyncio.run(trainer.logprobs(micro_batches)))
    for index, wanted in zip((0, 2), expected, strict=True):
        rows = {name: row for of_rank in told for name, row in of_rank[index].items()}
        assert sum(len(of_rank[index]) for of_rank in told) == len(wanted)
        assert max(np.abs(rows[name] - row).max() for name, row in wanted.items()) < 1e-4
    for of_rank in told:
        assert of_rank[1].num_tokens == surprisal.num_tokens
        sums = [of_rank[1].sampled, of_rank[1].expected, of_rank[1].variance]
        assert sums == pytest.approx([surprisal.sampled, surprisal.expected, surprisal.variance], rel=1e-5)
        assert of_rank[1].evidence == pytest.approx(surprisal.evidence, rel=1e-3, abs=1e-3)


def stream(layout: RankLayout):
    trainer = open_trainer(Case(layout))
    chunks = list(trainer.stream_weights(5_000))
    return chunks, {name: each.full_tensor().detach() for name, each in trainer.model.named_parameters()}


def test_weights_are_streamed_in_chunks_from_the_first_rank(ranks):
    (chunks, weights), (others, _) = ranks(2, stream, LAYOUTS["dp 2"])
    assert len(chunks) == len(others) > 3 and not any(others)
    # A chunk ends with the weight that exceeds its size.
    assert all(sum(each.nbytes for _, each in chunk[:-1]) < 5_000 for chunk in chunks)
    streamed = [each for chunk in chunks for each in chunk]
    assert [name for name, _ in streamed] == list(weights)
    assert all(torch.equal(each, weights[name]) for name, each in streamed)


def step_with_fault(layout: RankLayout, micro_batches: list[MicroBatch], error: type[Exception]):
    """Step with a faulty batch, then with a good one; return the message and what the weights give before and after."""
    trainer = open_trainer(Case(layout))
    before = asyncio.run(trainer.logprobs(make_batch()))
    with pytest.raises(error) as caught:
        asyncio.run(trainer.step(micro_batches, make_loss("dapo", micro_batches)))
    assert is_sharded(trainer)
    after = asyncio.run(trainer.logprobs(make_batch()))
    metrics = asyncio.run(trainer.step(make_batch(), make_loss("dapo", make_batch())))
    return str(caught.value), all((before[name] == after[name]).all() for name in before), metrics


def poison(sample):
    return dataclasses.replace(sample, advantages=np.full(len(sample), math.nan))


def tamper(sample):
    return dataclasses.replace(sample, token_ids=np.roll(sample.token_ids, 1))


@pytest.mark.parametrize("name", ["dp 4", "dp 2, ulysses 2", "HSDP 2, ulysses 2"])
@pytest.mark.parametrize(("change", "error"), [(poison, TrainingError), (tamper, ProvenanceError)])
def test_a_fault_in_one_rank_raises_its_error_on_all_and_keeps_the_weights(ranks, name, change, error):
    *others, last = make_batch()
    faulty = [*others, MicroBatch([change(last.samples[0]), *last.samples[1:]])]
    told = ranks(4, step_with_fault, LAYOUTS[name], faulty, error)
    messages = {message for message, _, _ in told}
    assert len(messages) == 1 and last.samples[0].trajectory_id in messages.pop()
    assert all(is_kept for _, is_kept, _ in told)
    expected = train_here(Case(num_steps=1)).metrics[0]
    for _, _, metrics in told:
        assert leave_out_account(metrics) == pytest.approx(leave_out_account(expected), rel=1e-5, abs=1e-5)


def fail_on_one_trajectory(logprobs, tokens):
    if "t3" in tokens.trajectory_ids:
        raise KeyError("no such column")
    return logprobs.sum(), {}


def step_with_faulty_loss(layout: RankLayout):
    trainer = open_trainer(Case(layout))
    with pytest.raises(TrainingError, match="KeyError: 'no such column'"):
        asyncio.run(trainer.step(make_batch(), fail_on_one_trajectory))
    return asyncio.run(trainer.step(make_batch(), make_loss("nll", make_batch())))


def test_a_loss_function_that_fails_in_one_rank_fails_on_all(ranks):
    expected = train_here(Case(loss="nll", num_steps=1)).metrics[0]
    for metrics in ranks(2, step_with_faulty_loss, LAYOUTS["dp 2"]):
        assert leave_out_account(metrics) == pytest.approx(leave_out_account(expected), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["dp 2, ulysses 2", "dp 2, gather 2"])
def test_bfloat16_is_as_close_to_float32_as_in_one_process(ranks, name):
    [told, *_] = ranks(4, train_on_ranks, Case(LAYOUTS[name], loss="nll", dtype=torch.bfloat16))
    here, exact = (train_here(Case(loss="nll", dtype=dtype)) for dtype in (torch.bfloat16, torch.float32))
    for metrics, ours, wanted in zip(told.metrics, here.metrics, exact.metrics, strict=True):
        error = abs(ours["loss/total"] - wanted["loss/total"])
        assert metrics["loss/total"] == pytest.approx(wanted["loss/total"], abs=max(2 * error, 5e-3))
        assert metrics["optimizer/grad_norm"] == pytest.approx(wanted["optimizer/grad_norm"], rel=3e-2)
    assert {weight.dtype for weight in told.weights.values()} == {torch.float32}


def find_residual_dtypes(layout: RankLayout):
    trainer, dtypes = open_trainer(Case(layout, dtype=torch.bfloat16)), set()
    trainer.model.model.layers[1].input_layernorm.register_forward_pre_hook(
        lambda _, inputs: dtypes.add(inputs[0].dtype)
    )
    asyncio.run(trainer.logprobs(make_batch()))
    return dtypes


def test_residual_sums_stay_in_float32(ranks):
    assert ranks(2, find_residual_dtypes, LAYOUTS["dp 2"]) == [{torch.float32}] * 2


def shard_over_heads(layout: RankLayout):
    with pytest.raises(UsageError) as caught:
        shard_model(Case(changes={"num_attention_heads": 6}).make_model(), open_mesh(layout, CPU))
    return str(caught.value)


def test_bad_layouts_are_refused(ranks):
    message = (
        "trainer.cp 4 does not divide the model's 6 attention heads (2 of keys): choose another cp, or cp_kind = gather"
    )
    assert ranks(4, shard_over_heads, LAYOUTS["ulysses 4"]) == [message] * 4
    for numbers in ({"cp": 3}, {"dp_replicate": 3}, {"cp": 2, "dp_replicate": 4}):
        with pytest.raises(UsageError, match=re.escape("does not divide num_ranks 4: change one of them")):
            RankLayout(4, **numbers)
    with pytest.raises(UsageError, match="at least 1"):
        RankLayout(0)
