"""Groups and samples small enough for calculation by hand."""

import math
import random

import torch

from turnsmith.algo.tokens import LossTokens
from turnsmith.types import Group, MicroBatch, Outcome, Sample, StopReason, Trajectory


def make_group(members):
    """Make a group from (outcome, reward) pairs, with trajectories t0, t1, …."""
    trajectories = [
        Trajectory(
            trajectory_id=f"t{index}", group_id="g", index=index, instance_id="task", iteration=0, seed=0,
            token_ids=[1, 2], sampled=[False, True], logprobs=[0.0, -1.0],
            stop_reason=StopReason.SUBMITTED, outcome=outcome,
        )
        for index, (outcome, _) in enumerate(members)
    ]  # fmt: skip
    return Group(group_id="g", trajectories=trajectories, rewards=[reward for _, reward in members])


def rewarded(*rewards):
    """Make a group in which every member counts."""
    return make_group([(Outcome.UNRESOLVED, reward) for reward in rewards])


def make_sample(name, old, advantage, group="g", token_ids=None, **columns):
    """Make a sample with a prompt of one token, followed by loss tokens with these log-probs."""
    num = len(old)
    return Sample(
        trajectory_id=name,
        group_id=group,
        token_ids=[0, *(token_ids or range(1, num + 1))],
        loss_mask=[False] + [True] * num,
        sampled_logprobs=[0.0, *old],
        advantages=[advantage] * (num + 1),
        **{column: [0.0, *values] for column, values in columns.items()},
    )


def two_by_hand(**columns):
    """Return the worked example: ratios 1.5 and 1.1 in a (advantage 1), 0.5 in b (advantage −2); every π_old is 1/e."""
    of = [{name: row[i] for name, row in columns.items()} for i in range(2)]
    return [make_sample("a", [-1.0, -1.0], 1.0, **of[0]), make_sample("b", [-1.0], -2.0, group="h", **of[1])]


def logprobs_by_hand():
    """Return the new log-probs of `two_by_hand`, in float64."""
    return torch.tensor([math.log(r) - 1 for r in (1.5, 1.1, 0.5)], dtype=torch.float64, requires_grad=True)


def tokens_of(samples, dtype=torch.float64):
    tokens = LossTokens.of(MicroBatch(samples))
    columns = {name: value.to(dtype) for name, value in vars(tokens).items() if isinstance(value, torch.Tensor)}
    return LossTokens(**(vars(tokens) | columns))


def random_samples(seed, count=6):
    """Draw samples of one to eight loss tokens with random advantages, in two groups."""
    rng = random.Random(seed)
    samples = []
    for index in range(count):
        old = [-3 * rng.random() for _ in range(rng.randint(1, 8))]
        samples.append(make_sample(f"t{index}", old, rng.uniform(-2, 2), group="gh"[index % 2]))
    return samples


def near_old(samples, seed, spread=0.5):
    """Draw new log-probs near the old ones; float64 with gradient."""
    old = tokens_of(samples).old_logprobs
    noise = torch.randn(len(old), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (old + spread * noise).requires_grad_()
