"""Check that a training batch holds exactly the sampled tokens.

The engine computes a digest of each turn that it samples. This module recomputes the digests from the arrays that the loss
reads, and so detects bugs of Turnsmith that change tokens or log-probs after sampling. `recipes/sampler_check` detects engines
that report other tokens than they sampled.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from turnsmith.errors import ProvenanceError
from turnsmith.types import Link, MicroBatch, Provenance, Sample, TurnDigests
from turnsmith.types.links import is_of_tokens

NEARBY = 50
"""Number of policy versions before and after the recorded one with which a wrong digest is compared, to name the true one."""


@dataclass(frozen=True, eq=False)
class SampleArrays:
    """Arrays of one trajectory, and the engine's digests that the arrays must match."""

    trajectory_id: str
    provenance: Provenance | None
    token_ids: np.ndarray
    """Token ids of the trajectory, int32."""
    logprobs: np.ndarray
    """Log-prob of each token at sampling, float32; 0 for tokens that were not sampled."""
    trains: np.ndarray
    """Loss mask: True for each token in the loss, bool."""

    @classmethod
    def of(cls, sample: Sample) -> "SampleArrays":
        """Take the arrays and the digests of a training sample."""
        columns = sample.token_ids, sample.sampled_logprobs, sample.loss_mask
        return cls(sample.trajectory_id, sample.provenance, *columns)


@dataclass(frozen=True)
class Difference:
    """First difference between a trajectory's arrays and the digests that the engine computed at sampling."""

    trajectory_id: str
    turn: int
    """Number of the turn that differs, from 1; 0 for the first prompt."""
    fault: str
    """Description of the difference: token ids, log-probs, policy version or loss mask."""

    def __str__(self) -> str:
        return f"{self.trajectory_id}, {f'turn {self.turn}' if self.turn else 'prompt'}: {self.fault}"


def check_provenance(micro_batches: Sequence[MicroBatch]) -> None:
    """Raise ProvenanceError if tokens, log-probs or loss mask of a sample do not match the digests of its engine."""
    for micro_batch in micro_batches:
        for arrays in split_arrays(micro_batch):
            if found := find_difference(arrays):
                raise ProvenanceError(
                    f"a training batch differs from what was sampled ({found}): the weights are unchanged; "
                    "`turnsmith provenance RUN` shows where the data was changed"
                )


def split_arrays(micro_batch: MicroBatch) -> Iterator[SampleArrays]:
    """Yield the arrays of each sample of a micro-batch, from the columns that the loss reads."""
    start, names = 0, ("token_ids", "sampled_logprobs", "loss_mask")
    columns = [micro_batch.column(name) for name in names]
    for sample in micro_batch.samples:
        place = slice(start, start := start + len(sample))
        yield SampleArrays(sample.trajectory_id, sample.provenance, *(column[place] for column in columns))


def find_difference(arrays: SampleArrays) -> Difference | None:
    """Return the first difference between a sample's arrays and the digests that the engine computed at sampling, if any."""
    provenance = arrays.provenance
    if provenance is None:
        return Difference(arrays.trajectory_id, 0, "the sample has no digests of an engine")
    return (
        _find_in_prompt(arrays, provenance)
        or _find_in_turns(arrays, provenance)
        or _find_at_the_end(arrays, provenance)
        or _find_in_mask(arrays, provenance)
    )


def digest_prompt(trajectory_id: str, token_ids: np.ndarray) -> str:
    """Compute the digest of a first prompt, which was rendered and not sampled."""
    return TurnDigests(trajectory_id).digest(token_ids, np.empty(0, np.float32), policy_version=0)


def _find_in_prompt(arrays: SampleArrays, provenance: Provenance) -> Difference | None:
    prompt = provenance.prompt
    if not prompt or digest_prompt(arrays.trajectory_id, arrays.token_ids[: prompt.num_tokens]) == prompt.digest:
        return None
    return Difference(arrays.trajectory_id, 0, "its tokens are not those that were rendered")


def _find_in_turns(arrays: SampleArrays, provenance: Provenance) -> Difference | None:
    digests, at = TurnDigests(arrays.trajectory_id), 0
    if provenance.prompt:
        digests.read(provenance.prompt.sampled_behind)
        at = provenance.prompt.num_tokens
    for number, link in enumerate(provenance.links, 1):
        digests.read(arrays.token_ids[at : link.start])
        if fault := _find_fault(arrays, link, at, digests):
            return Difference(arrays.trajectory_id, number, f"tokens {link.start} to {link.end}: {fault}")
        digests.read(arrays.token_ids[link.start : link.end])
        at = link.end
    return None


def _find_fault(arrays: SampleArrays, link: Link, at: int, digests: TurnDigests) -> str:
    """Describe how a turn's arrays differ from the engine's digest; empty if they match. The first `at` tokens do match."""
    if not at <= link.start <= link.end <= len(arrays.token_ids):
        return f"there are {len(arrays.token_ids)} tokens, and turns before it end at {at}"
    if not link.digest:
        return "its engine gave no digest"
    sampled = arrays.token_ids[link.start : link.end], arrays.logprobs[link.start : link.end]
    found = digests.digest(*sampled, link.policy_version)
    if found == link.digest:
        return ""
    if not is_of_tokens(found, link.digest):
        return f"token ids, of the turn or after token {at}, are not those of the engine"
    for version in range(max(0, link.policy_version - NEARBY), link.policy_version + NEARBY + 1):
        if digests.digest(*sampled, version) == link.digest:
            return f"policy version {version} sampled it, not {link.policy_version}"
    return "log-probs are not those of the engine"


def _find_at_the_end(arrays: SampleArrays, provenance: Provenance) -> Difference | None:
    links = provenance.links
    if not links or links[-1].end == len(arrays.token_ids):
        return None
    num_more = len(arrays.token_ids) - links[-1].end
    return Difference(arrays.trajectory_id, len(links), f"{num_more} tokens follow the last turn")


def _find_in_mask(arrays: SampleArrays, provenance: Provenance) -> Difference | None:
    expected = np.zeros(len(arrays.trains), np.bool_)
    for link in provenance.links:
        expected[link.start : link.end] = link.trains
    if np.array_equal(expected, arrays.trains):
        return None
    at = int(np.flatnonzero(expected != arrays.trains)[0])
    turn = sum(link.start <= at for link in provenance.links)
    fault = "is left out of the loss mask" if expected[at] else "is in the loss mask and must not be"
    return Difference(arrays.trajectory_id, turn, f"token {at} {fault}")
