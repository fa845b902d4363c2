"""Samples and micro-batches for training."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from turnsmith.types.links import Link, Provenance, TurnDigests
from turnsmith.types.records import check_parallel, to_array

PROVEN = ("token_ids", "loss_mask", "sampled_logprobs")
"""Columns that come unchanged from an engine and are covered by digests."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One trainable sequence. All arrays share the length of `token_ids`.

    Position t of each array describes the token at t, predicted from the tokens before it. Columns are never
    overwritten: `dataclasses.replace` adds `old_logprobs`.
    """

    trajectory_id: str
    group_id: str
    token_ids: np.ndarray
    """Token ids of the sequence, int32."""
    loss_mask: np.ndarray
    """True on tokens in the loss, bool."""
    sampled_logprobs: np.ndarray
    """float32; log-probs of the sampling policy, from the engine; 0 on tokens that were not sampled."""
    advantages: np.ndarray
    """float32; weight of each token's gradient."""
    old_logprobs: np.ndarray | None = None
    """float32; log-probs under the policy at the start of the iteration, computed by the trainer; None if not computed."""
    provenance: Provenance | None = None
    """Digests that prove that the tokens were sampled; trainers refuse samples without them."""

    def __post_init__(self) -> None:
        dtypes = {"token_ids": np.int32, "loss_mask": np.bool_}
        for name, values in vars(self).items():
            if name not in ("trajectory_id", "group_id", "provenance") and values is not None:
                object.__setattr__(self, name, to_array(values, dtypes.get(name, np.float32)))
        check_parallel(f"sample {self.trajectory_id}", *self.columns().values())
        if len(self) and self.loss_mask[0]:
            raise ValueError(
                f"sample {self.trajectory_id}: the first token cannot be in the loss: no token precedes it"
            )

    def columns(self) -> dict[str, np.ndarray]:
        """Return all arrays of the sample by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def num_loss_tokens(self) -> int:
        return int(np.count_nonzero(self.loss_mask))


def add_tokenizer_provenance(sample: Sample) -> Sample:
    """Add digests of its tokens to a sample that was tokenised from text, with the source `tokenizer`."""
    cuts = [0, *(np.flatnonzero(np.diff(sample.loss_mask)) + 1).tolist(), len(sample)]
    digests, links = TurnDigests(sample.trajectory_id), list[Link]()
    for start, end in pairwise(cuts):
        token_ids = sample.token_ids[start:end]
        digest = digests.digest(token_ids, sample.sampled_logprobs[start:end], policy_version=0)
        links.append(Link(start, end, 0, digest, trains=bool(sample.loss_mask[start])))
        digests.read(token_ids)
    return replace(sample, provenance=Provenance(tuple(links), source="tokenizer"))


@dataclass(frozen=True, eq=False)
class MicroBatch:
    """Samples packed end to end without padding, for one forward pass."""

    samples: list[Sample] = field(default_factory=list)
    joined: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    """Column name → array of that column, concatenated over all samples; empty before `join`."""
    share_prefixes: bool = False
    """True if neighbours of one group share one copy of the tokens with which they all start (`algo.prefixes`)."""

    def column(self, name: str) -> np.ndarray:
        """Return one column, concatenated over all samples."""
        return self.joined[name] if name in self.joined else np.concatenate([getattr(s, name) for s in self.samples])

    def join(self) -> "MicroBatch":
        """Return the micro-batch with its `PROVEN` columns joined, so that verification and loss read the same arrays."""
        return replace(self, joined={name: self.column(name) for name in PROVEN})

    @property
    def num_loss_tokens(self) -> int:
        return sum(sample.num_loss_tokens for sample in self.samples)
