"""Review of a run's provenance: checks by digests that training used exactly the tokens that the engine sampled."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from turnsmith.algo.packing import pack
from turnsmith.config import COLD_START, RFT
from turnsmith.errors import UsageError
from turnsmith.rollouts.samples import has_no_digest, prove, to_rft_sample, to_sample
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.runs.journal import read_last
from turnsmith.training.provenance import Difference, SampleArrays, find_difference, split_arrays
from turnsmith.types import OUTCOMES, Sample, Trajectory

MAX_TOKENS = 65_536
"""Size in tokens of the micro-batches into which the review packs samples."""


@dataclass(frozen=True)
class ChangedStep:
    """First step from the engine to a training micro-batch after which a trajectory does not match the engine's digests."""

    step: Literal["engine → journal", "journal → sample", "sample → micro-batch"]
    found: Difference
    journal: Path


@dataclass
class ProvenanceCounts:
    """Numbers of trajectories, turns and tokens with and without matching engine digests, until a change is found."""

    trajectories: int = 0
    """Number of trajectories whose tokens match the engine's digests."""
    turns: int = 0
    sampled_tokens: int = 0
    without_digest: int = 0
    """Number of trajectories with a turn without an engine digest: from evaluations, or from versions that recorded none."""
    lost: int = 0
    """Number of trajectories lost to the infrastructure, which training never uses."""
    retokenised: int = 0
    """Number of RFT samples made from text."""
    broken: ChangedStep | None = field(default=None)
    """First step found to have changed tokens, log-probs or loss mask; None if all digests match."""

    def count(self, trajectory: Trajectory) -> None:
        self.trajectories += 1
        self.turns += trajectory.num_turns
        self.sampled_tokens += int(trajectory.sampled.sum())


def trace_run(folder: RunFolder) -> ProvenanceCounts:
    """Recompute the digests of a run's tokens: training, then evaluations. Raises UsageError if the folder is not a run.

    Digests contain the number of the policy version and not its weights, so checkpoints are not needed.
    """
    read_json(folder.config)
    counts = ProvenanceCounts(retokenised=count_retokenised(folder))
    training = folder.stage_journals()
    for journal in [*training, *(path for path in folder.journals() if path not in training)]:
        found = read_last(journal)
        refuse_gaps(journal, len(found))
        proven = list(keep_with_digests(found, counts))
        counts.broken = find_changed(proven, journal, trains=journal in training)
        if counts.broken:
            break
        for trajectory in proven:
            counts.count(trajectory)
    return counts


def refuse_gaps(journal: Path, num_found: int) -> None:
    """Raise UsageError if the journal of a finished iteration holds fewer trajectories than it collected."""
    metrics = journal.with_name("metrics.json")
    collected = int(read_json(metrics).get("rollouts/collected", 0)) if metrics.exists() else 0
    if num_found < collected:
        raise UsageError(
            f"{journal} holds {num_found} of {collected} trajectories that were collected: restore the whole journal from a copy"
        )


def count_retokenised(folder: RunFolder) -> int:
    files = [folder.iteration(part, 0).metrics for part in (COLD_START, RFT)]
    return sum(int(read_json(metrics).get("samples/retokenised", 0)) for metrics in files if metrics.exists())


def keep_with_digests(trajectories: Iterable[Trajectory], counts: ProvenanceCounts) -> Iterator[Trajectory]:
    """Yield trajectories with engine digests of all turns; count others: `lost` if never trained on, else `without_digest`."""
    for trajectory in trajectories:
        if not OUTCOMES[trajectory.outcome].in_loss:
            counts.lost += 1
        elif has_no_digest(trajectory):
            counts.without_digest += 1
        else:
            yield trajectory


def find_changed(trajectories: list[Trajectory], journal: Path, *, trains: bool) -> ChangedStep | None:
    """Find the first step that changed tokens. If `trains`, the steps from the journal to the micro-batches are checked too."""
    for trajectory in trajectories:
        if found := find_difference(arrays_of_journal(trajectory)):
            return ChangedStep("engine → journal", found, journal)
    samples = [remake_sample(trajectory) for trajectory in trajectories] if trains else []
    for sample in samples:
        if found := find_difference(SampleArrays.of(sample)):
            return ChangedStep("journal → sample", found, journal)
    for arrays in (arrays for packed in pack(samples, MAX_TOKENS) for arrays in split_arrays(packed)):
        if found := find_difference(arrays):
            return ChangedStep("sample → micro-batch", found, journal)
    return None


def arrays_of_journal(trajectory: Trajectory) -> SampleArrays:
    columns = trajectory.token_ids, trajectory.logprobs, trajectory.sampled
    return SampleArrays(trajectory.trajectory_id, prove(trajectory), *columns)


def remake_sample(trajectory: Trajectory) -> Sample:
    """Make the training sample of a trajectory. For RFT it keeps the rollout's prompt, which RFT itself replaces."""
    if not trajectory.trajectory_id.startswith(f"{RFT}/"):
        return to_sample(trajectory, advantage=1.0)
    prompt = trajectory.token_ids[: trajectory.prompt_tokens].tolist()
    return to_rft_sample(trajectory, prompt)
