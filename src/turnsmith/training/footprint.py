"""Memory of training by part, computed from the sizes of a model, the configuration and the layout of ranks. Imports no torch.

The formulas describe the forward pass of Llama and its relatives in transformers on CPUs, where they are compared with
measurements. Attention kernels of GPUs keep less. All numbers are bytes of one rank.
"""

from dataclasses import dataclass, fields
from math import gcd

from turnsmith.config import RunConfig, TrainerConfig
from turnsmith.training.fsdp.mesh import RankLayout
from turnsmith.training.shape import CPU_TILE, GPU_TILE, ModelShape

MASTER_BYTES = 4
"""Bytes of one float32 weight. Its gradient has the same size."""
MOMENT_BYTES = {"float32": 8.0, "bfloat16": 4.0, "8bit": 2 + 2 * 4 / 256, "host": 0.0}
"""Bytes of AdamW's two moments per weight, on the device of the weights. In 8 bits, blocks of 256 share a scale."""
AUTOMATIC_SHARE = 0.5
"""Fraction that the KV cache of an engine in this process gets of the memory free beside weights and training."""
LOGIT_BYTES = 2 * 4
"""Bytes of one logit of a tile: a tile is computed while the last one still exists."""


@dataclass(frozen=True)
class Footprint:
    """Memory of one rank by part, in bytes, at the peak of an optimizer step."""

    weights: float
    """Float32 weights of the rank's shard, and copies in bfloat16 that autocast keeps in one process."""
    gradients: float
    moments: float
    """AdamW's two moments."""
    communication: float
    """Gathered weights and unsharded gradients of many ranks."""
    activations: float
    """Activations that all layers keep for the backward pass."""
    workspace: float
    """Further activations and gradients of the layer whose backward pass has the peak; in one process, a tied head's gradient."""
    logits: float
    """Logits of tiles, and gradients of the head and of its inputs; not in use at the same time as `workspace`."""

    @property
    def total(self) -> float:
        """Peak of the step: all parts, but only the larger one of `workspace` and `logits`."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return sum(parts.values()) - min(self.workspace, self.logits)


@dataclass(frozen=True)
class LayerBytes:
    """Bytes per token of one layer."""

    kept: float
    """Activations that the layer keeps for the backward pass."""
    peak: float
    """Activations and gradients of the layer at the peak of its backward pass."""


def find_footprint(
    shape: ModelShape,
    trainer: TrainerConfig,
    layout: RankLayout,
    *,
    itemsize: int,
    num_tokens: int,
    num_targets: int | None = None,
    gpu_bytes: float | None = None,
) -> Footprint:
    """Compute the memory of an optimizer step whose largest micro-batch has `num_tokens` tokens.

    Layers compute in numbers of `itemsize` bytes. The head computes `num_targets` tokens, all of them if None. `gpu_bytes`
    is the memory of the rank's GPU, None on a CPU.
    """
    own, targets = -(-num_tokens // layout.cp), -(-(num_targets or num_tokens) // layout.cp)
    parameters = shape.num_parameters * layout.dp_replicate / layout.num_ranks
    casts = itemsize * shape.num_parameters if itemsize < MASTER_BYTES and layout.num_ranks == 1 else 0
    layer, outer = find_layer_bytes(shape, trainer, layout, itemsize), find_outer_bytes(shape)
    # An offloaded input leaves while the next one is computed, and returns while the one after it is used.
    num_offloaded = max(0, shape.num_layers - 2) if trainer.offload_activations and gpu_bytes else 0
    # On a CPU, the host's memory is the device's.
    moments = "float32" if trainer.moments == "host" and not gpu_bytes else trainer.moments
    communication = find_communication(shape, layout, itemsize)
    num_logits = min(GPU_TILE if gpu_bytes else CPU_TILE, targets * shape.vocab_size)
    # `communication` has a place for the gradient of the head. In one process, it is added to that of earlier micro-batches:
    # at once, or after the backward pass if the head is the embedding.
    of_head = 0 if communication else MASTER_BYTES * shape.head_matrix
    return Footprint(
        weights=MASTER_BYTES * parameters + casts,
        gradients=MASTER_BYTES * parameters,
        moments=MOMENT_BYTES[moments] * parameters,
        communication=communication,
        activations=own * (shape.num_layers * layer.kept + outer - num_offloaded * 4 * shape.hidden_size),
        workspace=own * (layer.peak - layer.kept) + of_head * shape.is_tied,
        logits=LOGIT_BYTES * num_logits + 2 * 4 * targets * shape.hidden_size + of_head,
    )


def find_layer_bytes(shape: ModelShape, trainer: TrainerConfig, layout: RankLayout, itemsize: int) -> LayerBytes:
    """Compute the bytes per token of one layer: residuals and norms in float32, products and attention in `itemsize`."""
    hidden, query, inner = shape.hidden_size, shape.query_size, shape.intermediate_size
    key = shape.key_size * _count_key_copies(shape, layout)
    is_float32 = itemsize == MASTER_BYTES
    # Under autocast, each projection keeps its own copy of its input: three before attention, two in the MLP.
    attention_input, mlp_input = (4, 4) if is_float32 else (3 * itemsize, 2 * itemsize)
    attention = (8 + attention_input) * hidden + itemsize * (3 * query + 2 * key) + 4 * shape.num_heads
    if shape.has_head_norms:
        attention += (8 if is_float32 else 6) * (query + shape.key_size)
    mlp, wide = (8 + mlp_input) * hidden, 4 * itemsize * inner
    whole = attention + mlp + (wide if trainer.mlp_tiles == 1 else 0)
    # Memory of a layer peaks at the gradients of gate and up projection, or of queries, keys and values.
    in_mlp = attention + mlp + 1.5 * wide / trainer.mlp_tiles + 4 * hidden
    in_attention = attention + 4 * hidden + itemsize * (query + 2 * key)
    kept = {"none": whole, "full": 4 * hidden, "selective": 4 * hidden + itemsize * query + 4 * shape.num_heads}
    return LayerBytes(kept[trainer.activation_checkpointing], max(in_mlp, in_attention))


def _count_key_copies(shape: ModelShape, layout: RankLayout) -> int:
    """Count the keys that a rank holds per own token: Ulysses repeats heads if there are few, `gather` has those of all ranks."""
    return layout.cp if layout.cp_kind == "gather" else layout.cp // gcd(layout.cp, shape.num_key_heads)


def find_outer_bytes(shape: ModelShape) -> float:
    """Compute the bytes per token outside of the layers: last residual and norm, rotary embedding, token ids."""
    return 8 * shape.hidden_size + 8 * shape.head_dim + 24


def find_communication(shape: ModelShape, layout: RankLayout, itemsize: int) -> float:
    """Compute the bytes of gathered weights and unsharded gradients.

    Embedding, last norm and head stay gathered for the whole step, in float32, with the gradient of the head. Of the layers,
    one is in use while the next one is gathered, and gradients are summed over ranks in float32.
    """
    if layout.num_ranks == layout.dp_replicate:
        return 0.0
    outer = MASTER_BYTES * (shape.outer_parameters + shape.head_matrix)
    return outer + (3 * itemsize + MASTER_BYTES) * shape.layer_parameters


def count_largest_tokens(config: RunConfig) -> int:
    """Count the tokens of the largest micro-batch that the training of a run can have; 0 if it trains nothing.

    A sample above the token limit forms its own micro-batch, and small batches fill none.
    """
    return max(
        (
            min(max(part.optimizer.max_tokens_per_micro_batch, part.max_context), part.batch_size * part.max_context)
            for part in config.training.values()
        ),
        default=0,
    )


def longest_context(config: RunConfig) -> int:
    """Return the longest context of all stages of a run, in tokens."""
    return max([config.agent.max_context, *(part.max_context for part in config.training.values())])
