"""Loss tokens gathered from micro-batches."""

import pytest
import torch

from support.episodes.small_batches import make_sample
from turnsmith.algo.tokens import LossTokens
from turnsmith.types import MicroBatch, Sample


def test_only_loss_tokens_are_gathered_in_the_order_of_the_micro_batch():
    first = Sample(
        trajectory_id="a", group_id="g", token_ids=[1, 2, 3, 4], loss_mask=[False, True, False, True],
        sampled_logprobs=[0.0, -1.0, -9.0, -2.0], advantages=[9.0, 0.5, 9.0, 0.25],
    )  # fmt: skip
    tokens = LossTokens.of(MicroBatch([first, make_sample("b", [-3.0], -1.0)]))
    assert tokens.sampled_logprobs.tolist() == [-1.0, -2.0, -3.0]
    assert tokens.advantages.tolist() == [0.5, 0.25, -1.0]
    assert (tokens.trajectory_ids, tokens.num_tokens) == (["a", "b"], [2, 1])
    assert tokens.advantages.dtype == torch.float32


def test_pi_old_is_the_trainers_if_present_else_the_engines():
    assert LossTokens.of(MicroBatch([make_sample("a", [-1.0], 1.0)])).old_logprobs.tolist() == [-1.0]
    scored = LossTokens.of(MicroBatch([make_sample("a", [-1.0], 1.0, old_logprobs=[-1.5])]))
    assert (scored.old_logprobs.tolist(), scored.sampled_logprobs.tolist()) == ([-1.5], [-1.0])


def test_old_logprobs_missing_in_some_samples_are_refused():
    samples = [make_sample("a", [-1.0], 1.0, old_logprobs=[-1.5]), make_sample("b", [-1.0], 1.0)]
    with pytest.raises(ValueError, match="have old_logprobs and others have none"):
        LossTokens.of(MicroBatch(samples))


def test_sequence_means_can_be_spread_to_tokens():
    tokens = LossTokens.of(MicroBatch([make_sample("a", [-1.0, -2.0], 1.0), make_sample("b", [-3.0], 1.0)]))
    means = tokens.sequence_means(tokens.sampled_logprobs)
    assert means.tolist() == [-1.5, -3.0]
    assert tokens.spread(means).tolist() == [-1.5, -1.5, -3.0]


def test_denominator_is_shared_or_per_trajectory():
    tokens = LossTokens.of(MicroBatch([make_sample("a", [-1.0, -2.0], 1.0), make_sample("b", [-3.0], 1.0)]))
    assert tokens.divisor(3.0).tolist() == 3.0
    assert tokens.divisor({"b": 5.0, "a": 4.0}).tolist() == [4.0, 4.0, 5.0]


def test_all_columns_move_to_another_device():
    tokens = LossTokens.of(MicroBatch([make_sample("a", [-1.0], 1.0, old_logprobs=[-0.5])])).to(torch.device("meta"))
    assert {column.device.type for column in vars(tokens).values() if isinstance(column, torch.Tensor)} == {"meta"}
