"""Benchmark of one gradient on a CPU: masked loss against TRL, one sample against one per turn, and shared prefixes.

    python bench/update.py [--rows NAME …] [--rounds 5] [--tiny] [--check]
    python bench/update.py --model DIR [--dtype float32] [--rounds 5] [--check]

Each row compares two ways to compute the same gradient of the same DAPO loss, in float32 on one thread, without the optimizer
step. Rounds are interleaved. Times are medians of CPU seconds, which other processes of the machine influence little.

- masked: TRL's `GRPOTrainer._compute_loss` on a padded batch against `LocalTrainer` on the same samples, packed. 15 % of the
  tokens are sampled. On a CPU, TRL computes the logits of all positions; `LocalTrainer` computes those of sampled tokens.
- turns: one sample for each of 16 turns, which repeats the history, against one sample for the whole trajectory.
- prefix: groups of 10 samples with a common prefix, with and without `trainer.share_prefixes`.
- logits: memory that log-probs and their backward pass need beyond the gradients, in TRL's output head and in Turnsmith's.

The column `predicted` is the ratio of the floating-point operations. `--check` exits with 1 if a figure is missed. Required are
the ratios of the column `required`, and gradients that differ by at most 1e-5 of their norm. Memory for logits is required to be
at most 1/50 of TRL's.
TRL is in the extra `bench`.

With `--model`, the only row is the speed of that model's gradient on all cores: useful floating-point operations of two packed
episodes per second, as a share of those of a large matrix product. Required are 55 %, and a peak memory of at most 5 GB.
"""

import argparse
import os
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from peak_memory import peak_bytes
from turnsmith.algo.dapo import dapo_loss
from turnsmith.algo.losses import batch_denominator
from turnsmith.algo.packing import pack
from turnsmith.algo.prefixes import Family, find_families
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import ModelConfig
from turnsmith.engines.torch import attention
from turnsmith.training.account import count_work
from turnsmith.training.directories import find_model
from turnsmith.training.model import load_model, logprobs_of_sampled, measure_logprobs
from turnsmith.training.shape import read_shape
from turnsmith.types import Sample

SHARE_OF_PRODUCTS, PEAK_BYTES, MICRO_BATCH = 0.55, 5e9, 1_024
CLIP = {"clip_eps_low": 0.2, "clip_eps_high": 0.28}
LARGEST_DIFFERENCE, LOGITS_SHARE = 1e-5, 1 / 50
Gradient = Callable[[], None]
"""Function that adds the gradient of a batch to the parameters of a model."""


@dataclass(frozen=True)
class Shape:
    """Sizes of the models and of the batch."""

    model: dict[str, int | bool]
    vocabularies: tuple[int, ...]
    samples: int
    turns: int
    prompt: int
    sampled: int
    observed: int


WIDE = {"hidden_size": 256, "intermediate_size": 1_024, "num_hidden_layers": 4, "num_attention_heads": 8}
NARROW = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
COMMON = {"num_key_value_heads": 2, "max_position_embeddings": 4_096, "tie_word_embeddings": True}
FULL = Shape(WIDE | COMMON, (151_936, 4_096), samples=4, turns=16, prompt=64, sampled=6, observed=30)
TINY = Shape(NARROW | COMMON, (997, 101), samples=2, turns=3, prompt=12, sampled=3, observed=9)


@dataclass(frozen=True)
class Row:
    """Two ways to compute one gradient, and what is required of the second."""

    name: str
    base: tuple[PreTrainedModel, Gradient]
    ours: tuple[PreTrainedModel, Gradient]
    predicted: float
    required: float


@dataclass(frozen=True)
class Result:
    """Measured figures of a row."""

    row: Row
    base_s: list[float]
    ours_s: list[float]
    difference: float
    """Norm of the difference of the gradients, divided by the norm of the gradient."""

    @property
    def ratio(self) -> float:
        return statistics.median(self.base_s) / statistics.median(self.ours_s)

    @property
    def passes(self) -> bool:
        return self.ratio >= self.row.required and self.difference <= LARGEST_DIFFERENCE


def main() -> None:
    arguments = parse_arguments()
    if arguments.model:
        sys.exit(0 if print_share(arguments) or not arguments.check else 1)
    shape = TINY if arguments.tiny else FULL
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, one thread, {arguments.rounds} rounds, CPU seconds")
    results = [measure(make_row(shape), arguments.rounds) for name, make_row in ROWS.items() if name in arguments.rows]
    passes = [not results or print_table(results), LOGITS not in arguments.rows or print_memory(*measure_logits(shape))]
    sys.exit(0 if all(passes) or not arguments.check else 1)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=[*ROWS, LOGITS], default=[*ROWS, LOGITS], help="rows to measure")
    parser.add_argument(
        "--model", metavar="DIR", help="measure this model against matrix products, in place of the rows"
    )
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="dtype of --model")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds after a warm-up")
    parser.add_argument("--tiny", action="store_true", help="shapes for a test")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure is missed")
    return parser.parse_args()


def print_share(arguments: argparse.Namespace) -> bool:
    """Measure the gradient of a model against matrix products, interleaved, and print it. Return True if it is fast enough."""
    dtype = getattr(torch, arguments.dtype)
    model = load_model(ModelConfig(path=arguments.model, dtype=arguments.dtype)).train()
    model.set_attn_implementation(attention.NAME)
    shape = replace(
        FULL, samples=2, turns=6, prompt=200, sampled=25, observed=100
    )  # as in demonstrations of practice tasks
    samples = [make_trajectory(shape, shape.turns, model.config.vocab_size, seed) for seed in range(shape.samples)]
    flops = count_work(read_shape(find_model(arguments.model)), pack(samples, max_tokens=2**20)).flops
    seconds, rates = [], []
    for _ in range(arguments.rounds + 1):
        began = time.perf_counter()
        add_gradient(model, samples, dtype=dtype, max_tokens=MICRO_BATCH)
        seconds.append(time.perf_counter() - began)
        rates.append(multiply_rate(dtype))
    taken, rate = statistics.median(seconds[1:]), statistics.median(rates[1:])
    peak = 1_024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    num_tokens, share = sum(map(len, samples)), flops / taken / rate
    print(
        f"{arguments.model}, {arguments.dtype}, {torch.get_num_threads()} threads, medians of {arguments.rounds} rounds"
    )
    print(f"gradient   {num_tokens / taken:8.0f} tok/s   {flops / taken / 1e9:8.1f} GFLOPS")
    print(f"products   {'':8}         {rate / 1e9:8.1f} GFLOPS")
    print(f"share      {share:8.2f}   required {SHARE_OF_PRODUCTS:.2f}")
    print(f"peak       {peak / 1e9:8.2f} GB   required at most {PEAK_BYTES / 1e9:.0f} GB")
    return share >= SHARE_OF_PRODUCTS and peak <= PEAK_BYTES


def multiply_rate(dtype: torch.dtype, size: int = 1_024, repeats: int = 10) -> float:
    """Measure floating-point operations per second in a product of large matrices, the best of some repeats."""
    left, right = (torch.randn(size, size, dtype=dtype) for _ in range(2))
    shortest = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        left @ right
        shortest = min(shortest, time.perf_counter() - began)
    return 2 * size**3 / shortest


def make_masked(place: int, required: float, shape: Shape) -> Row:
    """Make the row that compares `LocalTrainer` with TRL. Trajectories have between half and all of the turns."""
    vocabulary, rng = shape.vocabularies[place], random.Random(0)
    turns = [shape.turns, *(rng.randint(shape.turns // 2, shape.turns) for _ in range(shape.samples - 1))]
    samples = [make_trajectory(shape, num, vocabulary, seed) for seed, num in enumerate(turns)]
    model, trl_model = (make_model(shape, vocabulary, kind) for kind in (attention.NAME, "sdpa"))
    width, size = max(map(len, samples)), len(samples)
    base = count_flops(model, size * width, size * width**2, size * (width - 1))
    return Row(
        f"masked, vocabulary {vocabulary:,}",
        (trl_model, make_trl_gradient(trl_model, samples, shape.prompt)),
        (model, partial(add_gradient, model, samples)),
        base / count_packed_flops(model, samples),
        required,
    )


def make_turns(shape: Shape) -> Row:
    """Make the row that compares one sample per trajectory with one sample per turn."""
    vocabulary = shape.vocabularies[-1]
    model = make_model(shape, vocabulary, attention.NAME)
    whole = [make_trajectory(shape, shape.turns, vocabulary, seed=seed) for seed in range(shape.samples)]
    cut = [part for sample in whole for part in cut_turns(sample, shape)]
    return Row(
        f"turns, {shape.turns} per trajectory",
        (model, partial(add_gradient, model, cut)),
        (model, partial(add_gradient, model, whole)),
        count_packed_flops(model, cut) / count_packed_flops(model, whole),
        required=6.0,
    )


def make_prefixes(share: float, required: float, shape: Shape) -> Row:
    """Make the row that compares shared with unshared prefixes, in a group of 10."""
    vocabulary = shape.vocabularies[-1]
    model = make_model(shape, vocabulary, attention.NAME)
    samples = [make_trajectory(shape, shape.turns, vocabulary, seed) for seed in range(10)]
    samples = [with_prefix(sample, samples[0], int(share * len(sample))) for sample in samples]
    return Row(
        f"prefix of {share:.0%}, groups of 10",
        (model, partial(add_gradient, model, samples)),
        (model, partial(add_gradient, model, samples, share_prefixes=True)),
        count_packed_flops(model, samples) / count_packed_flops(model, samples, find_families(samples)),
        required,
    )


ROWS: dict[str, Callable[[Shape], Row]] = {
    "masked-151936": partial(make_masked, 0, 2.5),
    "masked-4096": partial(make_masked, 1, 1.2),
    "turns": make_turns,
    "prefix-50": partial(make_prefixes, 0.5, 1.5),
    "prefix-80": partial(make_prefixes, 0.8, 2.5),
}
LOGITS = "logits"


def make_model(shape: Shape, vocabulary: int, implementation: str) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model("qwen2", vocab_size=vocabulary, bos_token_id=None, eos_token_id=None, **shape.model)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=implementation).train()


def make_trajectory(shape: Shape, turns: int, vocabulary: int, seed: int) -> Sample:
    """Make a trajectory of random tokens: a prompt, then turns of sampled and observed tokens."""
    rng = np.random.default_rng(seed)
    turn = [True] * shape.sampled + [False] * shape.observed
    mask = np.array([False] * shape.prompt + turn * turns)
    logprobs = np.where(mask, -np.log(vocabulary) + 0.3 * rng.standard_normal(len(mask)), 0.0)
    advantages = np.full(len(mask), (-1.0) ** seed)
    return Sample(
        f"t{seed}", "g", rng.integers(3, vocabulary, len(mask)), mask, logprobs, advantages, old_logprobs=logprobs
    )


def cut_turns(sample: Sample, shape: Shape) -> list[Sample]:
    """Cut a trajectory into one sample per turn, each with the whole history and only its own turn in the loss."""
    starts = np.flatnonzero(np.diff(sample.loss_mask.astype(int)) == 1) + 1
    parts = []
    for start in starts.tolist():
        columns: dict[str, Any] = {name: column[: start + shape.sampled] for name, column in sample.columns().items()}
        in_loss = columns["loss_mask"] & (np.arange(len(columns["loss_mask"])) >= start)
        parts.append(
            replace(sample, trajectory_id=f"{sample.trajectory_id}-{start}", **columns | {"loss_mask": in_loss})
        )
    return parts


def with_prefix(sample: Sample, other: Sample, length: int) -> Sample:
    """Replace the first tokens of a sample by those of another, outside the loss, and sample 15 % of all tokens after them."""
    token_ids, mask = sample.token_ids.copy(), np.zeros(len(sample), bool)
    token_ids[:length] = other.token_ids[:length]
    places = np.random.default_rng(0).permutation(np.arange(length, len(sample)))
    mask[places[: int(0.15 * len(sample))]] = True
    return replace(sample, token_ids=token_ids, loss_mask=mask)


def add_gradient(
    model: PreTrainedModel,
    samples: list[Sample],
    share_prefixes: bool = False,
    dtype: torch.dtype = torch.float32,
    max_tokens: int = 2**20,
) -> None:
    """Add the gradient of the DAPO loss of packed samples."""
    for micro_batch in pack(samples, max_tokens=max_tokens, share_prefixes=share_prefixes):
        logprobs = logprobs_of_sampled(model, micro_batch, dtype)
        loss, _ = dapo_loss(logprobs, LossTokens.of(micro_batch), denominator=batch_denominator(samples), **CLIP)
        loss.backward()


def make_trl_gradient(model: PreTrainedModel, samples: list[Sample], prompt: int) -> Gradient:
    """Make a GRPO trainer of TRL and its padded batch; return the function that adds its gradient to the model's."""
    trainer, inputs = make_trl_trainer(model, len(samples)), pad(samples, prompt)

    def add() -> None:
        trainer._compute_loss(trainer.model, inputs).backward()

    return add


def make_trl_trainer(model: PreTrainedModel, batch_size: int) -> Any:
    """Make a GRPO trainer for the token-level loss of DAPO, without reference model and recomputation of activations."""
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    config = GRPOConfig(
        output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, report_to="none", loss_type="dapo", beta=0.0,
        epsilon=CLIP["clip_eps_low"], epsilon_high=CLIP["clip_eps_high"], gradient_checkpointing=False,
        per_device_train_batch_size=batch_size, num_generations=batch_size,
    )  # fmt: skip
    data = Dataset.from_list([{"prompt": "a"}] * batch_size)

    def reward(completions: list[str], **_: Any) -> list[float | None]:
        return [0.0] * len(completions)

    trainer = GRPOTrainer(model, reward, config, data, processing_class=make_tokenizer())
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer, which the trainer requires and the benchmark does not use."""
    core = Tokenizer(models.WordLevel({"a": 0, "<pad>": 1, "<end>": 2}, unk_token="a"))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>")


def pad(samples: list[Sample], prompt: int) -> dict[str, Tensor]:
    """Pad samples on the right to the longest, as TRL's trainer does. Observed tokens are outside its `tool_mask`."""
    width = max(map(len, samples))

    def stack(name: str) -> Tensor:
        columns = (getattr(sample, name) for sample in samples)
        return torch.from_numpy(np.stack([np.pad(column, (0, width - len(column))) for column in columns]))

    token_ids, lengths = stack("token_ids").long(), torch.tensor([len(sample) for sample in samples])
    is_real = (torch.arange(width) < lengths[:, None]).long()
    return {
        "prompt_ids": token_ids[:, :prompt],
        "prompt_mask": is_real[:, :prompt],
        "completion_ids": token_ids[:, prompt:],
        "completion_mask": is_real[:, prompt:],
        "tool_mask": stack("loss_mask").long()[:, prompt:],
        "advantages": stack("advantages")[:, 0],
        "old_per_token_logps": stack("old_logprobs")[:, prompt:],
        "num_items_in_batch": torch.tensor(batch_denominator(samples)),
    }


def count_packed_flops(model: PreTrainedModel, samples: list[Sample], families: list[Family] | None = None) -> float:
    """Count the operations of packed samples, or of families of samples with shared prefixes."""
    families = families or [Family(0, [len(sample)]) for sample in samples]
    pairs = sum(
        family.prefix**2 / 2 + sum(suffix**2 / 2 + suffix * family.prefix for suffix in family.suffixes)
        for family in families
    )
    num_tokens, num_targets = sum(f.num_tokens for f in families), sum(s.num_loss_tokens for s in samples)
    return count_flops(model, num_tokens, pairs, num_targets)


def count_flops(model: PreTrainedModel, num_tokens: int, num_pairs: float, num_targets: int) -> float:
    """Count the operations of a gradient: layers three times forward; attention 7 products per pair; the head's logits twice."""
    config, head = model.config, model.get_output_embeddings().weight.numel()
    of_layers = 6 * (model.num_parameters() - head) * num_tokens
    return of_layers + 14 * config.num_hidden_layers * config.hidden_size * num_pairs + 8 * head * num_targets


def measure(row: Row, num_rounds: int) -> Result:
    """Compare the gradients in a warm-up round, then measure both sides in turn."""
    difference = compare(*(gradient_of(*side) for side in (row.base, row.ours)))
    times = [[time_gradient(*side) for side in (row.base, row.ours)] for _ in range(num_rounds)]
    base, ours = (list(column) for column in zip(*times, strict=True))
    return Result(row, base, ours, difference)


def gradient_of(model: PreTrainedModel, add: Gradient) -> list[Tensor]:
    model.zero_grad()
    add()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def compare(expected: list[Tensor], found: list[Tensor]) -> float:
    """Return the norm of the difference of two gradients, relative to the norm of the first."""
    differences = torch.stack([(a - b).norm() for a, b in zip(expected, found, strict=True)])
    return (differences.norm() / torch.stack([each.norm() for each in expected]).norm()).item()


def time_gradient(model: PreTrainedModel, add: Gradient) -> float:
    """Return the CPU seconds of one gradient."""
    model.zero_grad()
    start = time.process_time()
    add()
    return time.process_time() - start


def measure_logits(shape: Shape) -> tuple[float, float]:
    """Measure the peak bytes of the output head beyond its gradients: ours for sampled tokens, and TRL's for all."""
    from trl.kernels import ChunkedLogProbFunction
    from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE

    vocabulary, width = shape.vocabularies[0], shape.prompt + shape.turns * (shape.sampled + shape.observed)
    num_all, num_sampled = shape.samples * width, shape.samples * shape.turns * shape.sampled
    head = torch.nn.Linear(int(shape.model["hidden_size"]), vocabulary, bias=False)

    def trl(hidden: Tensor, token_ids: Tensor) -> Tensor:
        outputs = ("log_probs", "entropy")
        return ChunkedLogProbFunction.apply(
            hidden, head.weight, None, token_ids, 1.0, _CHUNKED_LOGPROB_CHUNK_SIZE, None, 1.0, outputs
        )[0]

    def ours(hidden: Tensor, token_ids: Tensor) -> Tensor:
        return measure_logprobs(head, hidden, token_ids)

    return measure_peak(ours, head.weight, num_sampled), measure_peak(trl, head.weight, num_all)


def measure_peak(function: Callable[[Tensor, Tensor], Tensor], weight: Tensor, num_tokens: int) -> float:
    """Measure the peak bytes of log-probs and their backward pass, without the gradients of hidden states and weight."""
    hidden = torch.randn(num_tokens, weight.size(1), requires_grad=True)
    token_ids = torch.randint(0, len(weight), (num_tokens,))
    peak = peak_bytes(lambda: function(hidden, token_ids).sum().backward())
    gradients = 4 * (hidden.numel() + weight.numel())
    weight.grad = None
    return peak - gradients


def print_table(results: list[Result]) -> bool:
    """Print the figures of the rows; return True if none is missed."""
    print(
        f"\n{'':34}{'base, s':>9}{'ours, s':>9}{'ratio':>8}{'predicted':>11}{'required':>10}{'gradients differ by':>21}"
    )
    for result in results:
        base, ours = statistics.median(result.base_s), statistics.median(result.ours_s)
        figures = f"{base:9.3f}{ours:9.3f}{result.ratio:8.2f}{result.row.predicted:11.2f}{result.row.required:10.1f}"
        print(f"{result.row.name:34}{figures}{result.difference:21.1e}{'' if result.passes else '  missed'}")
    return all(result.passes for result in results)


def print_memory(ours: float, theirs: float) -> bool:
    """Print the memory for logits; return True if the requirement is met."""
    passes = ours <= LOGITS_SHARE * theirs
    print(f"\nmemory for logits: {ours / 2**20:,.1f} MiB; TRL {theirs / 2**20:,.1f} MiB", end="")
    print(f" ({theirs / ours:,.1f} × as much, required 50){'' if passes else '  missed'}")
    return passes


if __name__ == "__main__":
    main()
