"""Metrics of an RL iteration, and the line of text that reports them."""

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from turnsmith.algo.algorithm import Metrics
from turnsmith.recipes.context import Iteration
from turnsmith.recipes.sampler_check import list_warnings
from turnsmith.recipes.schedule import estimate_left
from turnsmith.rollouts.inspection import describe_audits, describe_contact, rises_with_reward
from turnsmith.tracking import Standing
from turnsmith.tracking.standings import describe_pace, describe_rate
from turnsmith.training.account import leave_out_account, merge_accounts
from turnsmith.training.local import merge_metrics
from turnsmith.types import OUTCOMES, Group, StopReason

STEP_METRICS = ("loss/total", "optimizer/grad_norm", "optimizer/learning_rate")
"""Metrics of an optimizer step as a whole. Their mean over steps is not weighted by tokens."""


def describe(groups: Sequence[Group]) -> Metrics:
    """Compute the metrics of an iteration's groups: outcomes, turns, tokens, rewards, audits."""
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    counted = [t for t in trajectories if OUTCOMES[t.outcome].in_group]
    outcomes = Counter(f"outcome/{t.outcome}" for t in trajectories)
    endings = Counter(f"stop_reason/{t.stop_reason}" for t in trajectories)
    return {
        "rollouts/collected": len(trajectories),
        "rollouts/resolved_rate": statistics.fmean(t.resolved for t in counted),
        "rollouts/turns_mean": statistics.fmean(t.num_turns for t in counted),
        "rollouts/tokens_mean": statistics.fmean(len(t.token_ids) for t in counted),
        "rollouts/submit_rate": statistics.fmean(t.stop_reason is StopReason.SUBMITTED for t in counted),
        "rollouts/format_errors_mean": statistics.fmean(sum(bool(x.format_error) for x in t.turns) for t in counted),
        "rollouts/gradings_shared": float(sum(bool(t.grade and t.grade.shared) for t in trajectories)),
        "reward/mean": statistics.fmean(
            reward
            for group in groups
            for reward, trajectory in zip(group.rewards, group.trajectories, strict=True)
            if OUTCOMES[trajectory.outcome].in_group
        ),
        **{name: float(count) for name, count in sorted((outcomes + endings).items())},
        **describe_contact(trajectories),
        **describe_audits(trajectories),
    }


def merge_steps(steps: list[Metrics], num_loss_tokens: list[int]) -> Metrics:
    """Average the metrics of optimizer steps, weighted by their numbers of loss tokens; `STEP_METRICS` without weights.

    Tokens and seconds of the steps are added up.
    """
    of_steps = {name: statistics.fmean(step[name] for step in steps) for name in STEP_METRICS}
    losses = merge_metrics([leave_out_account(step) for step in steps], num_loss_tokens)
    return losses | of_steps | merge_accounts(steps)


def find_standing(iteration: Iteration, metrics: Metrics) -> Standing:
    """Find the standing of the run after an iteration with these metrics."""
    rate, before = metrics["rollouts/resolved_rate"], iteration.read_previous().get("rollouts/resolved_rate")
    gain = None if before is None else rate - before
    return Standing(rate, gain, metrics.get("tokens/sampled_per_s"), estimate_left(iteration.run))


def summary(iteration: Iteration, metrics: Metrics, standing: Standing) -> str:
    """Format the metrics of an iteration, and the standing of the run, as one line."""
    gap = f"{metrics['logprob_gap/mean']:.1e}" if "logprob_gap/mean" in metrics else "not measured"
    return (
        f"{iteration.stage.name} {iteration.number + 1}/{iteration.stage.iterations}: "
        f"{describe_rate(standing)}, {metrics['rollouts/turns_mean']:.1f} turns, groups with signal "
        f"{metrics['groups/with_signal']:.0f}/{metrics['groups/all']:.0f}, {metrics['optimizer/steps']:.0f} steps, "
        f"log-prob gap {gap}, suspicious patches {metrics['contact/flagged_rate']:.0%}, "
        f"{metrics['time/collect_s']:.0f} s + {metrics['time/train_s']:.0f} s"
        + "".join(f", {text}" for text in describe_pace(standing))
    )


def report(iteration: Iteration, metrics: Metrics) -> None:
    """Report an iteration and its warnings, and send its metrics to the trackers."""
    progress, feed = iteration.run.progress, iteration.run.feed
    standing = find_standing(iteration, metrics)
    progress.log(summary(iteration, metrics, standing))
    progress.show_standing(standing)
    for warning in find_warnings(iteration, metrics):
        progress.log(f"warning: {warning}")
    feed.update()


def find_warnings(iteration: Iteration, metrics: Metrics) -> Iterator[str]:
    """Yield warnings: attempts to exploit the grader rise with the reward, nothing is learned, or sampler and policy differ."""
    before = iteration.read_previous()
    for name in rises_with_reward(before, metrics):
        yield (
            f"{name} rose from {before[name]:.0%} to {metrics[name]:.0%} while the reward rose from "
            f"{before['reward/mean']:.2f} to {metrics['reward/mean']:.2f}: look at such trajectories before you trust "
            "the reward"
        )
    if not metrics["groups/with_signal"]:
        yield f"no group of {iteration.stage.name} had unequal results in iteration {iteration.number + 1}: nothing is learned"
    yield from list_warnings(metrics, iteration.run.config)
