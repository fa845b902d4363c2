"""Estimate of a whole run: seconds of each phase of an iteration, cores, disk, network, tokens and cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from turnsmith.config import RunConfig, StageConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.plan import GIB, ITEMSIZES, HardwarePlan, bytes_per_token, plan_hardware
from turnsmith.recipes.planning.calibration import Calibration
from turnsmith.recipes.planning.hardware import Hardware
from turnsmith.recipes.planning.rates import (
    LAYER_S,
    RECOMPUTED,
    STEP_S,
    TRAINING_SHARE,
    EngineLayout,
    count_fitting,
    count_flops,
    find_speed,
)
from turnsmith.recipes.planning.simulation import Collected, Speed, simulate
from turnsmith.recipes.planning.workload import EpisodeSize, Workload, assume_workload
from turnsmith.recipes.policy.ranks import FSDP, count_server_gpus
from turnsmith.training.directories import find_model
from turnsmith.training.shape import ModelShape, read_shape

JOURNAL_BYTES = 13
"""Bytes of a token in a journal: ids, mask and log-probs in 9, and about 4 letters of text."""
CHECKPOINT_BYTES = 12
"""Bytes of a parameter in a checkpoint: float32 weight and two moments."""
USABLE_SHARE = 0.9
"""Share of a GPU's memory that a model server uses if `engine.kv_memory_gb` is not set."""


@dataclass(frozen=True)
class Premises:
    """Facts from which a plan starts, besides the configuration."""

    hardware: Hardware
    num_cores: int
    """Cores for sandboxes and grading, of all machines together."""
    price: float | None = None
    """Price of one processor for an hour, in any currency."""
    workload: Workload | None = None
    """Sizes of episodes; None assumes them from the limits of each stage."""
    calibration: Calibration | None = None


@dataclass(frozen=True)
class StagePlan:
    """Plan of one RL stage."""

    name: str
    num_iterations: int
    num_episodes: int
    """Episodes of one iteration."""
    collected: Collected
    train_s: float
    sync_s: float
    """Seconds in which new weights are sent to the engine."""
    tokens_collected: float
    """Tokens of all episodes of one iteration."""
    tokens_trained: float
    num_fitting: float
    """Episodes whose keys and values fit into the engines at once; infinity without a limit."""
    num_wanted: int
    """Episodes that run at once."""

    @property
    def seconds(self) -> float:
        """Seconds of one iteration."""
        return self.collected.seconds + self.train_s + self.sync_s


@dataclass(frozen=True)
class RunPlan:
    """Plan of a run."""

    stages: list[StagePlan]
    memory: HardwarePlan
    num_processors: int
    """GPUs of trainer and engine; 1 on a CPU."""
    disk_bytes: float
    sync_bytes: float
    """Bytes of the weights that one engine copy receives in each iteration."""
    num_cores: int
    num_graders: int
    price: float | None

    @cached_property
    def hours(self) -> float:
        """Hours of all RL iterations."""
        return sum(stage.num_iterations * stage.seconds for stage in self.stages) / 3_600

    @property
    def cost(self) -> float | None:
        """Cost of all processors during the RL iterations; None without a price."""
        return None if self.price is None else self.price * self.num_processors * self.hours


def plan_run(config: RunConfig, premises: Premises) -> RunPlan:
    """Plan the RL stages of a run. Raises UsageError if it has none, or if it does not fit into the memory."""
    if not config.stages:
        raise UsageError("the configuration has no RL stage ([[stages]]), and only these are planned: add one")
    if config.engine.kind == "openai":
        raise UsageError("the speed of a model behind an endpoint is not known: plan with another engine.kind")
    memory, shape = plan_hardware(config), read_shape(find_model(config.model.path))
    refuse_too_large(memory, premises.hardware)
    layout = lay_out_engine(config, premises.hardware, shape)
    stages = [plan_stage(stage, config, premises, shape, layout) for stage in config.stages]
    itemsize = ITEMSIZES[config.model.dtype]
    tokens = sum(stage.num_iterations * stage.tokens_collected for stage in stages)
    checkpoints = max(1, config.keep_checkpoints) * (len(stages) + 1) * CHECKPOINT_BYTES * shape.num_parameters
    return RunPlan(
        stages,
        memory,
        count_processors(config, premises.hardware),
        JOURNAL_BYTES * tokens + checkpoints,
        itemsize * shape.num_parameters,
        premises.num_cores,
        config.rollouts.grading_workers,
        premises.price,
    )


def refuse_too_large(memory: HardwarePlan, hardware: Hardware) -> None:
    """Raise UsageError if a rank needs more memory than a processor has."""
    if not hardware.memory or memory.peak <= hardware.memory:
        return
    parts = " + ".join(f"{name} {size / GIB:,.1f}" for name, size in list_peak(memory) if size)
    cache = "a smaller engine.kv_memory_gb, " if memory.cache else ""
    raise UsageError(
        f"a rank needs {memory.peak / GIB:,.1f} GiB and {hardware.name} has {hardware.memory / GIB:,.1f} ({parts}): "
        f"use {cache}more ranks, a larger cp or activation_checkpointing = full"
    )


def list_peak(memory: HardwarePlan) -> list[tuple[str, float]]:
    """List the parts of the peak: those of training, or those of sampling if they are larger. Their sum is the peak."""
    training, cache = memory.training, ("keys and values", memory.cache or memory.episode)
    if memory.peak == memory.sampling:
        own = [] if memory.is_apart else [("weights", training.weights), ("moments", training.moments)]
        return [*own, ("engine", memory.engine_weights), cache]
    unused = "logits" if training.workspace >= training.logits else "workspace"
    parts = [(name, size) for name, size in vars(training).items() if name != unused]
    return [*parts, ("keys and values", 0.0 if memory.is_apart else memory.cache)]


def lay_out_engine(config: RunConfig, hardware: Hardware, shape: ModelShape) -> EngineLayout:
    """Find the copies of the engine, and the memory of each for keys and values."""
    num_each = count_server_gpus(config)
    num_replicas = config.engine.vllm.replicas if config.engine.kind == "vllm" else 1
    is_slow = config.engine.kind == "inprocess" and hardware.memory
    step_s = LAYER_S * shape.num_layers if is_slow else STEP_S
    if config.engine.kv_memory_gb:
        return EngineLayout(num_replicas, num_each, config.engine.kv_memory_gb * GIB * num_each, step_s)
    weights = ITEMSIZES[config.model.dtype] * shape.num_parameters
    free = USABLE_SHARE * hardware.memory * num_each - weights
    return EngineLayout(num_replicas, num_each, max(0.0, free), step_s)


def count_processors(config: RunConfig, hardware: Hardware) -> int:
    """Count the GPUs of trainer and engine, which may share them; 1 on a CPU."""
    if not hardware.memory:
        return 1
    ranks = config.trainer.num_ranks if config.trainer.kind == FSDP else 1
    servers = config.engine.vllm.replicas * count_server_gpus(config) if config.engine.kind == "vllm" else 0
    return max(ranks, servers) if config.engine.placement == "shared" else ranks + servers


def plan_stage(
    stage: StageConfig, config: RunConfig, premises: Premises, shape: ModelShape, layout: EngineLayout
) -> StagePlan:
    """Plan one iteration of a stage."""
    workload = premises.workload or assume_workload(stage.max_turns, stage.max_context)
    num = stage.tasks_per_iteration * stage.group_size
    episodes = workload.draw(num, config.seed)
    itemsize, scale = ITEMSIZES[config.model.dtype], premises.calibration.engine_scale if premises.calibration else 1.0
    mean_tokens = sum(episode.num_tokens for episode in episodes) / num
    speed = find_speed(shape, premises.hardware, layout, mean_tokens, itemsize, scale)
    collected = collect(episodes, config, premises.num_cores, speed)
    trained = workload.signal * num * mean_tokens
    bytes_each = mean_tokens * bytes_per_token(shape, itemsize)
    fitting = layout.num_replicas * count_fitting(layout, bytes_each) if layout.kv_bytes else float("inf")
    sync_s = (
        0.0
        if config.engine.kind == "inprocess"
        else itemsize * shape.num_parameters / layout.num_each / premises.hardware.network
    )
    return StagePlan(
        stage.name, stage.iterations, num, collected, find_train_s(stage, config, premises, shape, trained, mean_tokens), sync_s,
        num * mean_tokens, trained, fitting, min(num, config.rollouts.concurrency),
    )  # fmt: skip


def collect(episodes: Sequence[EpisodeSize], config: RunConfig, num_cores: int, speed: Speed) -> Collected:
    """Simulate the collection of episodes under the limits of a configuration."""
    limits = config.rollouts
    return simulate(
        episodes, speed, concurrency=limits.concurrency, num_cores=num_cores, num_graders=limits.grading_workers
    )


def find_train_s(
    stage: StageConfig, config: RunConfig, premises: Premises, shape: ModelShape, tokens: float, length: float
) -> float:
    """Estimate the seconds of training on a number of tokens in sequences of a mean length."""
    if premises.calibration:
        return tokens / premises.calibration.trained_per_s
    passes = RECOMPUTED[config.trainer.activation_checkpointing] + (1 / 3 if stage.old_logprobs == "trainer" else 0.0)
    ranks = config.trainer.num_ranks if config.trainer.kind == FSDP else 1
    return passes * count_flops(shape, tokens, length) / (ranks * premises.hardware.flops * TRAINING_SHARE)
