"""Every pair of features against a plain, unpacked forward pass of transformers: losses and gradients of two or three steps.

`TURNSMITH_WRITE_EQUIVALENCE=1` writes the measured differences to docs/equivalence.md.
"""

import asyncio
import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from support.models.gradients import largest_error, read_gradients
from support.models.small_models import VOCABULARY, make_model
from support.sharded import CPU, make_loss
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import Moments, OptimizerConfig, TrainerConfig
from turnsmith.training import head
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.fsdp.mesh import RankLayout, open_mesh
from turnsmith.training.fsdp.sharding import shard_model
from turnsmith.training.fsdp.trainer import ShardedTrainer
from turnsmith.training.optimizer import make_optimizer
from turnsmith.types import MicroBatch, Sample, add_tokenizer_provenance

DOCUMENT = Path(__file__).parents[3] / "docs" / "equivalence.md"
OPTIMIZER = OptimizerConfig(learning_rate=1e-4, grad_clip=1e9)
SAMPLES_PER_ROW = 3
TILE = 5 * VOCABULARY
"""Number of logits of a tile with `chunked log-probs`: a row has several tiles of the vocabulary."""


@dataclass(frozen=True)
class Setup:
    """Features in use. The defaults are those of the plain trainer: one rank, one sample per row, one row per step."""

    cp: int = 1
    cp_kind: str = "ulysses"
    dp: int = 1
    dp_replicate: int = 1
    is_packed: bool = False
    share_prefixes: bool = False
    num_rounds: int = 1
    tile: int = head.CPU_TILE
    trainer: dict[str, Any] = field(default_factory=dict)
    dtype: torch.dtype = torch.float32
    moments: Moments = "float32"
    num_steps: int = 2
    resumes: bool = False

    @property
    def layout(self) -> RankLayout:
        return RankLayout(self.cp * self.dp, self.cp, self.dp_replicate, self.cp_kind)

    @property
    def num_rows(self) -> int:
        return self.dp * self.num_rounds

    @property
    def num_samples(self) -> int:
        return self.num_rows * (SAMPLES_PER_ROW if self.is_packed else 1)


FEATURES: dict[str, dict[str, Any]] = {
    "packing": {"is_packed": True},
    "cp 2, Ulysses": {"cp": 2},
    "cp 2, gather": {"cp": 2, "cp_kind": "gather"},
    "cp 4, Ulysses": {"cp": 4},
    "cp 4, gather": {"cp": 4, "cp_kind": "gather"},
    "dp 2": {"dp": 2},
    "HSDP 2 × 2": {"dp": 4, "dp_replicate": 2},
    "chunked log-probs": {"tile": TILE},
    "checkpointing, full": {"trainer": {"activation_checkpointing": "full"}},
    "checkpointing, selective": {"trainer": {"activation_checkpointing": "selective"}},
    "offload": {"trainer": {"offload_activations": True}},
    "tiled MLP": {"trainer": {"mlp_tiles": 3}},
    "prefix sharing": {"is_packed": True, "share_prefixes": True},
    "accumulation": {"num_rounds": 2},
    "8-bit moments": {"moments": "8bit", "num_steps": 3},
    "bf16": {"dtype": torch.bfloat16},
    # Loaded moments have an effect on the third step.
    "resume": {"resumes": True, "num_steps": 3},
}
"""Name of each feature → what it changes in a setup."""
LOSS, GRADIENT = 1e-5, 1e-4
OF_MOMENTS = 1e-4, 1e-3
"""Tolerances of loss and gradients with moments in 8 bits, which change later updates."""
ROUNDING_FACTOR = 2
"""Ratio of the tolerances with bf16 to the errors that transformers itself has in bf16 on the same batch."""


def combine(names: Sequence[str]) -> Setup | None:
    """Combine features; None if both change the same thing."""
    settings = [FEATURES[name] for name in names]
    trainer = [setting.get("trainer", {}) for setting in settings]
    if len(names) == 2 and ({"cp"} & settings[0].keys() & settings[1].keys() or trainer[0].keys() & trainer[1].keys()):
        return None
    merged = {name: value for setting in settings for name, value in setting.items()}
    # With context parallelism two rows at once are enough for two replicas.
    if "cp" in merged and "dp" in merged:
        merged["dp"] = 2
    elif "dp" in merged:
        merged["dp"] = max(setting.get("dp", 1) for setting in settings)
    return Setup(**merged | {"trainer": {key: value for each in trainer for key, value in each.items()}})


def make_samples(num_samples: int) -> list[Sample]:
    """Make samples of unequal lengths; three neighbours share a group and their first tokens."""
    samples = []
    for index in range(num_samples):
        common, own = random.Random(index // SAMPLES_PER_ROW), random.Random(100 + index)
        token_ids = [common.randrange(VOCABULARY) for _ in range(9)]
        token_ids += [index % SAMPLES_PER_ROW, *(own.randrange(VOCABULARY) for _ in range(own.randint(3, 25)))]
        mask = [False, *(own.random() < 0.4 for _ in token_ids[2:]), True]
        sampled = [-4.0 - own.uniform(-0.5, 0.5) if is_in_loss else 0.0 for is_in_loss in mask]
        advantages = [own.uniform(0.5, 2) * own.choice([-1, 1])] * len(mask)
        sample = Sample(f"t{index}", f"g{index // SAMPLES_PER_ROW}", token_ids, mask, sampled, advantages)
        samples.append(add_tokenizer_provenance(sample))
    return samples


def make_rows(setup: Setup) -> list[MicroBatch]:
    samples, size = make_samples(setup.num_samples), SAMPLES_PER_ROW if setup.is_packed else 1
    rows = [samples[start : start + size] for start in range(0, len(samples), size)]
    return [MicroBatch(row, share_prefixes=setup.share_prefixes) for row in rows]


@dataclass(frozen=True)
class Steps:
    """Loss and gradients of each step."""

    losses: list[float]
    gradients: list[dict[str, Tensor]]


def build_model(seed: int = 0) -> PreTrainedModel:
    """Make a model whose MLPs are large enough for moments in 8 bits, also on eight ranks."""
    return make_model("qwen3", seed, head_dim=8, intermediate_size=1024)


def train_on_ranks(setup: Setup, folder: Path) -> Steps:
    """Make the steps on the ranks of the default process group."""
    head.CPU_TILE = setup.tile
    trainer, gradients = open_trainer(setup), list[dict[str, Tensor]]()
    rows = make_rows(setup)
    loss_fn = make_loss("cispo", rows)
    losses = []
    for number in range(setup.num_steps):
        if setup.resumes and number == 1:
            trainer = resume(trainer, setup, folder)
        hook = trainer.optimizer.register_step_pre_hook(
            lambda *_, model=trainer.model: gradients.append(read_gradients(model))
        )
        losses.append(asyncio.run(trainer.step(rows, loss_fn))["loss/total"])
        hook.remove()
    if setup.moments == "8bit":
        check_quantized(trainer)
    trainer.close()
    return Steps(losses, gradients)


def open_trainer(setup: Setup, seed: int = 0) -> ShardedTrainer:
    mesh = open_mesh(setup.layout, CPU)
    model = shard_model(build_model(seed), mesh, setup.dtype)
    needed = {"activation_checkpointing": "full"} if "offload_activations" in setup.trainer else {}
    limit_activations(model, TrainerConfig(**needed | setup.trainer))
    return ShardedTrainer(model, mesh, OPTIMIZER, dtype=setup.dtype, moments=setup.moments)


def resume(trainer: ShardedTrainer, setup: Setup, folder: Path) -> ShardedTrainer:
    """Save a checkpoint and load it into a new trainer, which began with other weights."""
    asyncio.run(trainer.save(folder))
    trainer.close()
    resumed = open_trainer(setup, seed=1)
    asyncio.run(resumed.load(folder))
    return resumed


def check_quantized(trainer: ShardedTrainer) -> None:
    """Check that large weights have moments in 8 bits."""
    weight = trainer.model.model.layers[0].mlp.up_proj.weight
    moment = trainer.optimizer.state[weight]["exp_avg"].to_local()
    assert weight.to_local().numel() >= 4096 and moment.codes.dtype == torch.uint8


def train_all(setups: list[Setup], folder: Path) -> list[Steps]:
    default = head.CPU_TILE
    try:
        return [train_on_ranks(setup, folder / str(index)) for index, setup in enumerate(setups)]
    finally:
        head.CPU_TILE = default


@cache
def train_plainly(num_samples: int, num_steps: int, dtype: torch.dtype = torch.float32) -> Steps:
    """Make the steps by plain attention of transformers, sample by sample."""
    model = build_model()
    model.set_attn_implementation("eager")
    optimizer, samples = make_optimizer(model, OPTIMIZER), make_samples(num_samples)
    loss_fn, losses, gradients = make_loss("cispo", [MicroBatch(samples)]), [], []
    for _ in range(num_steps):
        optimizer.zero_grad()
        parts = [score_plainly(model, sample, loss_fn, dtype) for sample in samples]
        losses.append(sum(part.item() for part in parts))
        sum(parts).backward()
        gradients.append(read_gradients(model))
        optimizer.step()
    return Steps(losses, gradients)


def score_plainly(model: Any, sample: Sample, loss_fn: Any, dtype: torch.dtype) -> Tensor:
    """Compute the loss of a sample; the decoder computes in `dtype`, the head in float32."""
    token_ids, mask = torch.tensor(sample.token_ids.tolist()), torch.tensor(sample.loss_mask.tolist())
    with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
        hidden = model.get_decoder()(token_ids[None]).last_hidden_state[0, :-1]
    logits = model.get_output_embeddings()(hidden.float())
    logprobs = logits.log_softmax(-1).gather(1, token_ids[1:, None])[:, 0][mask[1:]]
    return loss_fn(logprobs, LossTokens.of(MicroBatch([sample])))[0]


def compare(found: Steps, expected: Steps) -> tuple[float, float]:
    """Return the largest difference of a loss, and the largest relative difference of a gradient: all weights, or one weight."""
    losses = max(abs(a - b) for a, b in zip(found.losses, expected.losses, strict=True))
    pairs = zip(found.gradients, expected.gradients, strict=True)
    return losses, max(largest_error(ours, theirs) for ours, theirs in pairs)


def list_combinations() -> dict[tuple[str, ...], Setup]:
    names = [(name,) for name in FEATURES] + list(combinations(FEATURES, 2))
    return {each: setup for each in names if (setup := combine(each))}


def find_tolerances(setup: Setup) -> tuple[float, float]:
    """Return the tolerances of loss and gradients."""
    allowed = [(LOSS, GRADIENT)]
    if setup.moments == "8bit":
        allowed.append(OF_MOMENTS)
    if setup.dtype == torch.bfloat16:
        allowed.append(allow_rounding(setup.num_samples, setup.num_steps))
    loss, gradient = zip(*allowed, strict=True)
    return max(loss), max(gradient)


def allow_rounding(num_samples: int, num_steps: int) -> tuple[float, float]:
    """Return a multiple of the errors of a plain forward pass in bf16."""
    loss, gradient = compare(
        train_plainly(num_samples, num_steps, torch.bfloat16), train_plainly(num_samples, num_steps)
    )
    return ROUNDING_FACTOR * loss, ROUNDING_FACTOR * gradient


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_pair_of_features_equals_a_plain_forward_pass(ranks, tmp_path):
    setups = list_combinations()
    differences = {}
    for num_ranks in sorted({setup.layout.num_ranks for setup in setups.values()}):
        chosen = {names: setup for names, setup in setups.items() if setup.layout.num_ranks == num_ranks}
        steps, *_ = ranks(num_ranks, train_all, list(chosen.values()), tmp_path / str(num_ranks), limit_s=900)
        for (names, setup), found in zip(chosen.items(), steps, strict=True):
            differences[names] = compare(found, train_plainly(setup.num_samples, setup.num_steps))
    if os.environ.get("TURNSMITH_WRITE_EQUIVALENCE"):
        DOCUMENT.write_text(render(differences, setups), "utf-8")
    allowed = {names: find_tolerances(setups[names]) for names in differences}
    wrong = {
        names: (found, allowed[names])
        for names, found in differences.items()
        if found[0] > allowed[names][0] or found[1] > allowed[names][1]
    }
    assert not wrong


def test_the_document_names_every_feature():
    lines = DOCUMENT.read_text("utf-8").splitlines()
    rows = [line.split("|")[1].strip() for line in lines if re.match(r"\| \d", line)]
    assert rows == [f"{number} {name}" for number, name in enumerate(FEATURES, 1)] * 2


TEXT = """# Equivalence of features

Features of the trainer can be combined. A test compares each of them, and each pair, with a plain forward pass of
`transformers`: eager attention, one sample at a time, no packing, one process. Both sides make two optimizer steps with
CISPO's loss and float32 weights, and three steps with 8-bit moments or resume. The test is
`tests/training/fsdp/test_equivalence.py`. It writes this page if `TURNSMITH_WRITE_EQUIVALENCE=1` is set.

The model is a random Qwen3 of two layers with tied weights, large weights and two heads of keys. With four ranks in a
context-parallel group there are fewer heads of keys than ranks. The ranks are processes on a CPU with gloo. Pairs of `cp 4`
with `dp 2` or HSDP use eight ranks. The samples have unequal lengths, so ranks get unequal shares and padding.

A cell of the tables is the largest difference of the steps. The diagonal holds features alone. An empty cell belongs to
two features that exclude each other. The tolerance is {plain}. With 8-bit moments it is
{moments}.

With bf16, the tolerance is {factor} times the error that `transformers` itself has on the same batch: the difference between
the plain forward pass with its decoder under autocast to bfloat16, and in float32. On the batches of this test, that is
{rounding}.

With resume, a new trainer with other weights loads a checkpoint after the first step, and makes the following steps.

## Losses

Absolute difference of the loss.

{losses}

## Gradients

Difference of a weight's gradient, relative to the norm of that gradient; the largest of all weights. A weight whose
gradient is below 1 % of the whole gradient is compared with that 1 %.

{gradients}
"""


def render(differences: dict[tuple[str, ...], tuple[float, float]], setups: dict[tuple[str, ...], Setup]) -> str:
    """Return the document, with tables of the differences of losses and gradients."""
    losses, gradients = (
        render_table({names: f"{found[column]:.0e}" for names, found in differences.items()}) for column in (0, 1)
    )
    rounded = [find_tolerances(setup) for setup in setups.values() if setup.dtype == torch.bfloat16]
    ranges = [f"{min(limits):.0e} to {max(limits):.0e}" for limits in zip(*rounded, strict=True)]
    limits = {
        "plain": f"{LOSS:.0e} for losses and {GRADIENT:.0e} for gradients",
        "moments": "{:.0e} and {:.0e}".format(*OF_MOMENTS),
        "rounding": "{} for losses and {} for gradients".format(*ranges),
    }
    return TEXT.format(losses=losses, gradients=gradients, factor=ROUNDING_FACTOR, **limits)


def render_table(cells: dict[tuple[str, ...], str]) -> str:
    names = [*FEATURES]
    rows = ["| feature | " + " | ".join(str(number) for number in range(1, len(names) + 1)) + " |"]
    rows.append("|---" * (len(names) + 1) + "|")
    for number, row in enumerate(names, 1):
        keys = [(row,) if row == column else tuple(sorted((row, column), key=names.index)) for column in names]
        rows.append(f"| {number} {row} | " + " | ".join(cells.get(key, "") for key in keys) + " |")
    return "\n".join(rows)
