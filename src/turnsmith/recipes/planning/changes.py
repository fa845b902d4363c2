"""Bottleneck of a plan, and the settings whose change would save most time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from turnsmith.config import RolloutConfig, RunConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.planning.estimate import Premises, RunPlan, StagePlan, plan_run

NUM_CHANGES = 3
MIN_GAIN = 0.01
"""Smallest share of the time that a change must save to be named."""


@dataclass(frozen=True)
class PlannedChange:
    """Setting with another value, and its predicted effect."""

    name: str
    is_free: bool
    """True if it needs no further hardware."""
    hours: float
    """Hours of the run with the change."""


def find_changes(config: RunConfig, premises: Premises, plan: RunPlan) -> list[PlannedChange]:
    """Find the changes that save most time, those without further hardware first, by planning the run again with each."""
    found = [PlannedChange(name, is_free, hours) for name, is_free, hours in try_all(config, premises)]
    useful = [change for change in found if change.hours < (1 - MIN_GAIN) * plan.hours]
    ordered = sorted(useful, key=lambda change: (not change.is_free, round(change.hours, 1)))
    best = {change.name.partition(" = ")[0]: change for change in reversed(ordered)}
    return [change for change in ordered if change in best.values()][:NUM_CHANGES]


def try_all(config: RunConfig, premises: Premises) -> Iterator[tuple[str, bool, float]]:
    """Yield each change that fits, whether it is free, and the hours of the run with it."""
    for name, is_free, changed, given in list_candidates(config, premises):
        try:
            yield name, is_free, plan_run(changed, given).hours
        except UsageError:  # it does not fit into the memory
            continue


def list_candidates(config: RunConfig, premises: Premises) -> Iterator[tuple[str, bool, RunConfig, Premises]]:
    """Yield name, need of hardware, configuration and premises of each change."""
    limits, trainer = config.rollouts, config.trainer
    for key, value in list_limits(limits):
        changed = config.model_copy(update={"rollouts": limits.model_copy(update={key: value})})
        yield f"rollouts.{key} = {value}", True, changed, premises
    for kind in ("none", "selective"):
        if trainer.activation_checkpointing == "full":
            lighter = trainer.model_copy(update={"activation_checkpointing": kind})
            yield (
                f"trainer.activation_checkpointing = {kind}",
                True,
                config.model_copy(update={"trainer": lighter}),
                premises,
            )
    stages = [stage.model_copy(update={"old_logprobs": "engine", "is_cap": None}) for stage in config.stages]
    yield "stages.*.old_logprobs = engine", True, config.model_copy(update={"stages": stages}), premises
    yield f"{2 * premises.num_cores} cores", False, config, replace(premises, num_cores=2 * premises.num_cores)
    if config.engine.kind == "vllm":
        servers = config.engine.vllm.model_copy(update={"replicas": 2 * config.engine.vllm.replicas})
        engine = config.engine.model_copy(update={"vllm": servers})
        yield (
            f"engine.vllm.replicas = {servers.replicas}",
            False,
            config.model_copy(update={"engine": engine}),
            premises,
        )


def list_limits(limits: RolloutConfig) -> Iterator[tuple[str, int]]:
    """Yield keys of limits with larger values."""
    for factor in (2, 16):
        yield "concurrency", factor * limits.concurrency
        yield "grading_workers", factor * limits.grading_workers


def name_bottleneck(plan: RunPlan) -> str:
    """Name in one sentence what most of the time is spent on in the longest stage."""
    stage = max(plan.stages, key=lambda stage: stage.num_iterations * stage.seconds)
    if stage.train_s > stage.collected.seconds:
        return f"{stage.name}: training takes {stage.train_s / stage.seconds:.0%} of an iteration"
    share = f"{stage.name}: collecting takes {stage.collected.seconds / stage.seconds:.0%} of an iteration"
    return f"{share}, and {describe_limit(stage, plan)}"


def describe_limit(stage: StagePlan, plan: RunPlan) -> str:
    """Describe what limits the collection of episodes."""
    if stage.collected.mean_cores > 0.8 * plan.num_cores:
        return f"its {plan.num_cores} cores are busy"
    if stage.collected.mean_grading > 0.8 * plan.num_graders:
        return f"its {plan.num_graders} grading workers are busy"
    if stage.num_fitting < stage.num_wanted:
        return f"keys and values of {stage.num_fitting:,.0f} of {stage.num_wanted:,} episodes fit into the engines"
    if stage.collected.tail_s > 0.3 * stage.collected.seconds:
        return f"the last episodes take {stage.collected.tail_s / stage.collected.seconds:.0%} of that time"
    return f"the engine samples {stage.collected.mean_sampling:,.0f} sequences at once"
