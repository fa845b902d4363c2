"""Plan of a run's hardware: layout of ranks, and memory of one rank by part. Imports no torch."""

from collections.abc import Iterator
from dataclasses import dataclass

from turnsmith.config import RunConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.policy.ranks import FSDP, find_number, read_layout
from turnsmith.training.directories import find_model
from turnsmith.training.footprint import (
    AUTOMATIC_SHARE,
    Footprint,
    count_largest_tokens,
    find_footprint,
    longest_context,
)
from turnsmith.training.fsdp.mesh import RankLayout
from turnsmith.training.shape import ModelShape, read_shape

GIB = 2**30
ITEMSIZES = {"float32": 4, "bfloat16": 2}
"""Value of `model.dtype` → bytes of a number."""


@dataclass(frozen=True)
class HardwarePlan:
    """Layout of the trainer's ranks, and the memory of one rank in bytes."""

    layout: RankLayout
    num_tokens: int
    """Tokens of the largest micro-batch; 0 if the run trains nothing."""
    training: Footprint
    engine_weights: float
    """Weights of the engine, if it does not share the trainer's; divided by the tensor parallelism of vLLM."""
    episode: float
    """Keys and values of one episode of the longest context."""
    cache: float
    """Keys and values that an engine in the driver's process holds for the whole run, also while the trainer trains."""
    is_apart: bool
    """True if the engine has GPUs of its own beside ranks: in the driver's process, or by `engine.placement`."""

    @property
    def sampling(self) -> float:
        """Memory of a GPU while the engine samples and the trainer waits. A server is counted with the cache of one episode."""
        trainer = 0.0 if self.is_apart else self.training.weights + self.training.moments
        return trainer + self.engine_weights + (self.cache or self.episode)

    @property
    def peak(self) -> float:
        """Largest memory of a GPU: while it samples, or while it trains beside the cache of an engine in its process."""
        beside = 0.0 if self.is_apart else self.cache
        return max(self.sampling, self.training.total + beside if self.num_tokens else 0.0)


def plan_hardware(config: RunConfig) -> HardwarePlan:
    """Compute the layout and the memory of one rank from the configuration and `config.json` of the model. Raises UsageError."""
    trainer, shape, layout = config.trainer, read_shape(find_model(config.model.path)), read_layout(config)
    num_tokens, itemsize = count_largest_tokens(config), ITEMSIZES[config.model.dtype]
    gpu_bytes = config.cluster.gpu_memory_gb and config.cluster.gpu_memory_gb * GIB
    footprint = find_footprint(shape, trainer, layout, itemsize=itemsize, num_tokens=num_tokens, gpu_bytes=gpu_bytes)
    shards = find_tensor_parallelism(config)
    is_inprocess = config.engine.kind == "inprocess"
    is_apart = trainer.kind == FSDP and (is_inprocess or config.engine.placement == "own")
    if is_apart and is_inprocess:
        weights = find_footprint(shape, trainer, RankLayout(), itemsize=itemsize, num_tokens=0).weights
    else:
        weights = 0 if is_inprocess else itemsize * shape.num_parameters / shards
    episode = longest_context(config) * bytes_per_token(shape, itemsize) / shards
    taken = weights if is_apart else footprint.total if num_tokens else footprint.weights
    cache = find_cache(config, episode, gpu_bytes and gpu_bytes - taken) if is_inprocess else 0.0
    return HardwarePlan(layout, num_tokens, footprint, weights, episode, cache, is_apart)


def find_cache(config: RunConfig, episode: float, free_bytes: float | None) -> float:
    """Compute the bytes of the cache of an engine in this process, by the rules of `training.memory`.

    `episode` is the size for one episode. `free_bytes` is the memory beside weights and training, None if it is not known.
    """
    wanted, given = config.rollouts.concurrency * episode, config.engine.kv_memory_gb
    if given is not None:
        return min(wanted, given * GIB)
    return wanted if free_bytes is None else min(wanted, max(episode, AUTOMATIC_SHARE * free_bytes))


def bytes_per_token(shape: ModelShape, itemsize: int) -> int:
    """Return the bytes of one token's keys and values in all layers."""
    return 2 * shape.num_layers * shape.key_size * itemsize


def find_tensor_parallelism(config: RunConfig) -> int:
    """Find the number of GPUs over which a vLLM server divides the model, in its arguments; 1 for other engines."""
    return find_number(config, "--tensor-parallel-size|-tp")


def check_hardware(config: RunConfig) -> None:
    """Raise UsageError if a run does not fit into GPUs of `cluster.gpu_memory_gb`, if that is given."""
    given = config.cluster.gpu_memory_gb
    if given is None or (plan := plan_hardware(config)).peak <= given * GIB:
        return
    parts = ", ".join(f"{name} {size / GIB:,.1f}" for name, size in list_parts(plan) if size)
    raise UsageError(
        f"one of {plan.layout.num_ranks} ranks needs about {plan.peak / GIB:,.1f} GiB, and cluster.gpu_memory_gb is {given:g} "
        f"({parts}): use more ranks, a larger cp, activation_checkpointing = full or a lower max_tokens_per_micro_batch"
    )


def list_parts(plan: HardwarePlan) -> Iterator[tuple[str, float]]:
    """Yield each part of the memory of one rank, in bytes, and the sums while it trains and while the engine samples."""
    if plan.num_tokens:
        yield from ((name, size) for name, size in vars(plan.training).items())
        yield "training, peak", plan.training.total
    yield "engine: weights", plan.engine_weights
    yield "engine: keys and values of an episode", plan.episode
    if plan.cache:
        yield "engine: keys and values of all episodes", plan.cache
    beside = "on a GPU of its own" if plan.is_apart else "with the trainer's weights and moments"
    yield f"sampling, {beside}", plan.sampling


def describe_layout(plan: HardwarePlan) -> str:
    """Describe the layout: number of ranks, sequences that are trained at once, and copies of the sharded model."""
    layout = plan.layout
    if layout.num_ranks == 1:
        return f"1 rank: sequences of up to {plan.num_tokens:,} tokens"
    copies = f"{layout.dp_replicate} copies of the model, each" if layout.dp_replicate > 1 else "the model is"
    return (
        f"{layout.num_ranks} ranks: {layout.dp} sequences of up to {plan.num_tokens:,} tokens at once, each on {layout.cp} "
        f"ranks ({layout.cp_kind}); {copies} sharded over {layout.num_ranks // layout.dp_replicate} ranks"
    )
