"""A look back at a run: are its journals what engines sampled, and the samples and micro-batches that are made of them?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from turnsmith.algo.packing import pack
from turnsmith.errors import UsageError
from turnsmith.rollouts.provenance import has_no_digest, prove
from turnsmith.rollouts.samples import to_rft_sample, to_sample
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.runs.journal import read_last
from turnsmith.training.provenance import Break, Claim, claim_of, claims_of, find_break
from turnsmith.types import OUTCOMES, Sample, Trajectory

RFT = "rft"
"""Stage whose samples are made anew behind another prompt."""
MAX_TOKENS = 65_536
"""Of the micro-batches that are packed again."""


@dataclass(frozen=True)
class BrokenLink:
    """The first link of a run that does not hold."""

    link: Literal["engine → journal", "journal → sample", "sample → micro-batch"]
    found: Break
    journal: Path


@dataclass
class Traced:
    """What was found in the journals of a run, up to the first broken link."""

    trajectories: int = 0
    """Those that are proven."""
    turns: int = 0
    sampled_tokens: int = 0
    without_digest: int = 0
    """Trajectories that say nothing of their engine: they were evaluated, or are older than digests."""
    lost: int = 0
    """Trajectories that the infrastructure ended; they never train."""
    retokenised: int = 0
    """Samples of RFT that no engine sampled."""
    broken: BrokenLink | None = field(default=None)

    def count(self, trajectory: Trajectory) -> None:
        self.trajectories += 1
        self.turns += trajectory.num_turns
        self.sampled_tokens += int(trajectory.sampled.sum())


def trace_run(folder: RunFolder) -> Traced:
    """Make all digests of a run again, what trains before what is only evaluated. Raises UsageError where there is no run.

    A digest holds the number of a policy version and none of its weights, so checkpoints may be gone.
    """
    read_json(folder.config)
    traced = Traced(retokenised=count_retokenised(folder))
    training = folder.stage_journals()
    for journal in [*training, *(path for path in folder.journals() if path not in training)]:
        found = read_last(journal)
        refuse_gaps(journal, len(found))
        proven = list(keep_with_digests(found, traced))
        traced.broken = find_broken(proven, journal, trains=journal in training)
        if traced.broken:
            break
        for trajectory in proven:
            traced.count(trajectory)
    return traced


def refuse_gaps(journal: Path, num_found: int) -> None:
    """Raise UsageError where an iteration that is done had collected more than its journal holds."""
    metrics = journal.with_name("metrics.json")
    collected = int(read_json(metrics).get("rollouts/collected", 0)) if metrics.exists() else 0
    if num_found < collected:
        raise UsageError(
            f"{journal} holds {num_found} of {collected} trajectories that were collected: what trained cannot be proven"
        )


def count_retokenised(folder: RunFolder) -> int:
    metrics = folder.metrics(RFT, 0)
    return int(read_json(metrics).get("samples/retokenised", 0)) if metrics.exists() else 0


def keep_with_digests(trajectories: Iterable[Trajectory], traced: Traced) -> Iterator[Trajectory]:
    """Those that claim to be proven; the others are counted."""
    for trajectory in trajectories:
        if not OUTCOMES[trajectory.outcome].in_loss:
            traced.lost += 1
        elif has_no_digest(trajectory):
            traced.without_digest += 1
        else:
            yield trajectory


def find_broken(trajectories: list[Trajectory], journal: Path, *, trains: bool) -> BrokenLink | None:
    """The first broken link of what a journal holds; of what trains also in samples and micro-batches that are made anew."""
    for trajectory in trajectories:
        if found := find_break(claim_of_journal(trajectory)):
            return BrokenLink("engine → journal", found, journal)
    samples = [remake_sample(trajectory) for trajectory in trajectories] if trains else []
    for sample in samples:
        if found := find_break(claim_of(sample)):
            return BrokenLink("journal → sample", found, journal)
    for claim in (claim for packed in pack(samples, MAX_TOKENS) for claim in claims_of(packed)):
        if found := find_break(claim):
            return BrokenLink("sample → micro-batch", found, journal)
    return None


def claim_of_journal(trajectory: Trajectory) -> Claim:
    columns = trajectory.token_ids, trajectory.logprobs, trajectory.sampled
    return Claim(trajectory.trajectory_id, prove(trajectory), *columns)


def remake_sample(trajectory: Trajectory) -> Sample:
    """As its stage makes one; RFT's other prompt is not rendered again, its own takes the place."""
    if not trajectory.trajectory_id.startswith(f"{RFT}/"):
        return to_sample(trajectory, advantage=1.0)
    prompt = trajectory.token_ids[: trajectory.prompt_tokens].tolist()
    return to_rft_sample(trajectory, prompt)
