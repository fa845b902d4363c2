"""Loading of causal models from Hugging Face directories, and log-probs of sampled tokens in packed samples."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging

from turnsmith.algo.prefixes import Family, find_families
from turnsmith.config import ModelConfig
from turnsmith.engines.torch import attention
from turnsmith.engines.torch.attention import (
    Boundaries,
    Layout,
    attend_packed,
    expand_heads,
    has_kernel,
    hidden_states,
)
from turnsmith.engines.torch.precision import computing_in
from turnsmith.engines.weights import load_complete
from turnsmith.errors import UsageError
from turnsmith.training.configuration import check_supported, read_config, report_model_errors
from turnsmith.training.directories import find_model
from turnsmith.training.head import HeadLogprobs
from turnsmith.training.sampler_settings import weigh
from turnsmith.training.shape import MAX_CHUNK_LOGITS
from turnsmith.training.shared_prefixes import SharedLayout
from turnsmith.training.stopwatch import Stopwatch
from turnsmith.types import MicroBatch

logging.disable_progress_bar()


class PackedLayout:
    """Attention layout of samples that lie end to end in one row, given by their lengths."""

    def __init__(self, lengths: list[int], device: torch.device) -> None:
        self.position_ids = torch.cat([torch.arange(length) for length in lengths]).to(device)
        self._lengths = lengths
        self._boundaries = Boundaries(lengths, device)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute causal attention within each sample: `[1, heads, tokens, head_dim]` in, `[1, tokens, heads, head_dim]` out."""
        # Under autocast, rotary embedding returns queries and keys in fp32, while values keep the autocast dtype.
        query, key = query.to(value.dtype), key.to(value.dtype)
        if has_kernel(value.device, value.dtype):
            query, key, value = (tensor[0].transpose(0, 1).contiguous() for tensor in (query, key, value))
            return attend_packed(query, key, value, self._boundaries, self._boundaries, scaling)[None]
        key, value = expand_heads(query, key, value)
        has_groups = query.shape[1] != key.shape[1]
        segments = zip(*(tensor.split(self._lengths, dim=2) for tensor in (query, key, value)), strict=True)
        outputs = [
            scaled_dot_product_attention(q, k, v, is_causal=True, scale=scaling, enable_gqa=has_groups)
            for q, k, v in segments
        ]
        return torch.cat([output.transpose(1, 2) for output in outputs], dim=1)


class TimedLayout:
    """Layout whose attention a stopwatch measures, forward and backward."""

    def __init__(self, layout: Layout, stopwatch: Stopwatch) -> None:
        self.position_ids = layout.position_ids
        self._layout = layout
        self._stopwatch = stopwatch

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
        """Compute attention by the measured layout."""
        attend = partial(self._layout.attend, layer, scaling=scaling)
        return self._stopwatch.measure_both_ways("attention", attend, query, key, value)


def load_model(config: ModelConfig) -> PreTrainedModel:
    """Load a policy with packed attention and without dropout. Raises UsageError if the model is missing or unsupported."""
    if config.threads:
        torch.set_num_threads(config.threads)
    directory, device = find_model(config.path), find_device(config.device)
    description = read_config(directory, config.rope_scaling)
    check_supported(description, directory)
    with report_model_errors(directory):
        # Keep float32 weights: an update of 1e-6 would be lost in bfloat16.
        options = {"config": description, "dtype": torch.float32, "attn_implementation": attention.NAME}
        model = load_complete(AutoModelForCausalLM, directory, **options)
        # With dropout, trainer and engine would have different policies.
        cast(nn.Module, model).to(device).eval()
        check_packing(partial(score, model), model.device, directory)
    return model


def find_device(name: str) -> torch.device:
    """Resolve `auto`, `cpu` or `cuda` to a device. Raises UsageError if CUDA is requested but absent."""
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise UsageError(
            f"model.device is cuda, but torch {torch.__version__} sees no CUDA device here: use auto or cpu, or install a "
            "build of torch for the driver of this machine"
        )
    return torch.device("cpu" if name == "cpu" or not has_cuda else "cuda")


@torch.no_grad()
def check_packing(
    score_row: Callable[..., Tensor], device: torch.device, directory: Path, dtype: torch.dtype = torch.float32
) -> None:
    """Raise UsageError if packing samples changes the model's output, as with custom attention code. `score_row` is `score`."""

    def score_last(token_ids: Tensor, lengths: list[int]) -> Tensor:
        row = PackedRow(token_ids, PackedLayout(lengths, device), last, last)
        return score_row(lambda head, hidden, targets: hidden, row, dtype)

    whole, last = torch.tensor([3, 3, 3, 0, 1, 2], device=device), torch.tensor([-1], device=device)
    packed, alone = score_last(whole, [3, 3]), score_last(whole[3:], [3])
    # In bfloat16, kernels for other numbers of tokens round otherwise.
    tolerance = max(1e-3, 8 * torch.finfo(dtype).eps) * alone.abs().max().item()
    if not torch.allclose(alone, packed, rtol=0.0, atol=tolerance):
        raise UsageError(
            f"the model at {directory} uses custom attention code, so samples cannot be packed: use another model"
        )


@dataclass(frozen=True, eq=False)
class PackedRow:
    """Tokens of one forward pass, packed end to end, and the tokens in the loss. All tensors are int64 and 1-D."""

    token_ids: Tensor
    """Ids of all tokens, `[tokens]`."""
    layout: Layout
    """Positions and attention of the tokens."""
    sources: Tensor
    """Index in the row of the hidden state that predicts each token in the loss, `[targets]`."""
    targets: Tensor
    """Ids of the tokens in the loss, `[targets]`, in the order of the samples."""


Measure = Callable[[nn.Linear, Tensor, Tensor], Tensor]
"""Function of the output head, hidden states in fp32, `[targets, hidden_size]`, and the target ids that they predict."""


def pack_row(micro_batch: MicroBatch, device: torch.device, multiple: int = 1, *, in_parts: bool = False) -> PackedRow:
    """Pack the samples of a micro-batch end to end, with one copy of shared prefixes if the micro-batch has them.

    One more sample of padding fills the row up to a multiple of `multiple` tokens. With `in_parts` the layout is one that can
    compute the attention of a part of the row (`SharedLayout.attend_from`).
    """
    token_ids = torch.tensor(micro_batch.column("token_ids"), dtype=torch.long, device=device)
    targets = torch.tensor(micro_batch.column("loss_mask"), device=device).nonzero().squeeze(1)
    # The hidden state before a token predicts it. A sample's first token is never a target, so samples do not mix.
    sources, target_ids = targets - 1, token_ids[targets]
    families = list_families(micro_batch)
    if num_padding := -sum(family.num_tokens for family in families) % multiple:
        families.append(Family(0, [num_padding]))
    token_ids = pad(token_ids, (0, num_padding))
    if micro_batch.share_prefixes or in_parts:
        shared = SharedLayout(families, device)
        return PackedRow(shared.select(token_ids), shared, shared.places[sources], target_ids)
    return PackedRow(token_ids, PackedLayout([family.num_tokens for family in families], device), sources, target_ids)


def list_families(micro_batch: MicroBatch) -> list[Family]:
    """List the families of a micro-batch; each sample is a family of its own if they share no prefixes."""
    if micro_batch.share_prefixes:
        return find_families(micro_batch.samples)
    return [Family(0, [len(sample)]) for sample in micro_batch.samples]


def logprobs_of_sampled(
    model: PreTrainedModel,
    micro_batch: MicroBatch,
    dtype: torch.dtype = torch.float32,
    stopwatch: Stopwatch | None = None,
) -> Tensor:
    """Compute the log-prob of each token in the loss, given all earlier tokens of its sample: fp32, 1-D, in order.

    The layers compute in `dtype`, and the output head in float32, since log-probs are most sensitive to rounding of logits.
    """
    return score(model, measure_logprobs, pack_row(micro_batch, model.device), dtype, stopwatch)


@torch.no_grad()
def surprisal_of_sampled(model: PreTrainedModel, micro_batch: MicroBatch, dtype: torch.dtype = torch.float32) -> Tensor:
    """Sum −log p, entropy, variance of −log p, and evidence for each of `ALTERNATIVES`, over the tokens in the loss.

    The evidence for a sampler setting is log(p under the setting / p under the policy). Output `[3 + alternatives]`,
    float64, nats.
    """
    return score(model, measure_surprisal, pack_row(micro_batch, model.device), dtype)


def score(
    model: PreTrainedModel, measure: Measure, row: PackedRow, dtype: torch.dtype, stopwatch: Stopwatch | None = None
) -> Tensor:
    """Run the decoder on a row, and return what `measure` computes for the tokens in the loss.

    The stopwatch adds up the time of `attention` and of the `head`, forward and backward.
    """
    stopwatch = stopwatch or Stopwatch(row.token_ids.device)
    with computing_in(dtype, row.token_ids.device):
        hidden = hidden_states(model.get_decoder(), row.token_ids, TimedLayout(row.layout, stopwatch))[row.sources]
    return stopwatch.measure_both_ways("head", partial(measure, find_head(model)), hidden.float(), row.targets)


def find_head(model: PreTrainedModel) -> nn.Linear:
    """Return the output head of a model. Raises UsageError if it is not a plain linear layer."""
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear:
        raise UsageError(f"the output head of {type(model).__name__} is not a linear layer: use another model")
    return head


def measure_logprobs(head: nn.Linear, hidden: Tensor, token_ids: Tensor) -> Tensor:
    """Compute the log-prob of each target, fp32, `[targets]`."""
    return HeadLogprobs.apply(hidden, head.weight, head.bias, token_ids)


def measure_surprisal(head: nn.Linear, hidden: Tensor, token_ids: Tensor) -> Tensor:
    """Sum surprisal, entropy, variance and evidence over the targets, float64, `[3 + alternatives]`."""
    chunk = max(1, MAX_CHUNK_LOGITS // head.out_features)
    parts = zip(hidden.split(chunk), token_ids.split(chunk), strict=True)
    return torch.stack([_sum_surprisal(head(part), targets) for part, targets in parts]).sum(0)


def _sum_surprisal(logits: Tensor, token_ids: Tensor) -> Tensor:
    surprise = -logits.log_softmax(-1)
    shares = surprise.neg().exp()
    entropy = (shares * surprise).sum(-1)
    variance = (shares * (surprise - entropy[:, None]).square()).sum(-1)
    sums = torch.stack([surprise.gather(1, token_ids[:, None])[:, 0], entropy, variance]).double().sum(1)
    return torch.cat([sums, weigh(logits, token_ids)])
