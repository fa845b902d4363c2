"""What trains."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from turnsmith.types.links import Link, Provenance, TurnDigests
from turnsmith.types.records import check_parallel, to_array

PROVEN = ("token_ids", "loss_mask", "sampled_logprobs")
"""Columns that come from an engine, unchanged."""


@dataclass(frozen=True, eq=False)
class Sample:
    """One trainable sequence. All arrays share the length of `token_ids`.

    Position t of the others speaks of the token at t, predicted from the tokens before it. No column is ever written over:
    who scores the tokens adds a column, by `dataclasses.replace`.
    """

    trajectory_id: str
    group_id: str
    token_ids: np.ndarray
    """int32."""
    loss_mask: np.ndarray
    """bool; true on tokens that train."""
    sampled_logprobs: np.ndarray
    """float32, under the policy that sampled, by the engine; 0 outside of what was sampled."""
    advantages: np.ndarray
    """float32, what each token's gradient is weighed by; 0 teaches nothing."""
    old_logprobs: np.ndarray | None = None
    """float32, under the policy before the update, by the trainer."""
    ref_logprobs: np.ndarray | None = None
    """float32, under a reference policy, where an algorithm asks for them."""
    values: np.ndarray | None = None
    """float32, of a critic, where an algorithm asks for them."""
    provenance: Provenance | None = None
    """What proves its tokens; a trainer refuses to learn from a sample that has none."""

    def __post_init__(self) -> None:
        dtypes = {"token_ids": np.int32, "loss_mask": np.bool_}
        for name, values in vars(self).items():
            if name not in ("trajectory_id", "group_id", "provenance") and values is not None:
                object.__setattr__(self, name, to_array(values, dtypes.get(name, np.float32)))
        check_parallel(f"sample {self.trajectory_id}", *self.columns().values())
        if len(self) and self.loss_mask[0]:
            raise ValueError(f"sample {self.trajectory_id}: the first token has no context to be predicted from")

    def columns(self) -> dict[str, np.ndarray]:
        """All arrays that it has, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def num_loss_tokens(self) -> int:
        return int(np.count_nonzero(self.loss_mask))


def as_written(sample: Sample) -> Sample:
    """The same, of tokens that no engine sampled: text of others under our tokenizer. Its links begin here."""
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
    """Samples packed end to end, no padding; what one forward pass sees."""

    samples: list[Sample] = field(default_factory=list)
    joined: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    """Columns that are joined already, by name."""

    def column(self, name: str) -> np.ndarray:
        """One column of all samples, one after the other."""
        return self.joined[name] if name in self.joined else np.concatenate([getattr(s, name) for s in self.samples])

    def join(self) -> "MicroBatch":
        """The same with its columns of `PROVEN` joined once and for all: so what is proven is the very array that is read."""
        return MicroBatch(self.samples, {name: self.column(name) for name in PROVEN})

    @property
    def num_loss_tokens(self) -> int:
        return sum(sample.num_loss_tokens for sample in self.samples)
