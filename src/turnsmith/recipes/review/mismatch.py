"""Diagnosis of a gap between log-probs of engine and policy: imitates possible faults, and finds the one that explains it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedModel

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.tokenizers import load_renderer
from turnsmith.config import ROUNDING_GAP, RunConfig
from turnsmith.errors import UsageError
from turnsmith.mismatch import examination, faults, tokenisation
from turnsmith.mismatch.examination import OTHER_DTYPES, Rescoring, attempt
from turnsmith.mismatch.forward import Hypothesis, load_plain
from turnsmith.mismatch.report import MismatchReport
from turnsmith.recipes.sampler_check import list_warnings
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.runs.journal import read_last
from turnsmith.tracking import Progress
from turnsmith.training.directories import find_model
from turnsmith.training.model import find_device
from turnsmith.types import Trajectory

MAX_EARLIER = 3
"""Number of earlier versions of the weights, newest first, that are tested as a cause of the log-prob gap."""


@dataclass(frozen=True)
class IterationId:
    """Stage and number of an iteration; RFT counts as iteration 0 of `rft`."""

    stage: str
    iteration: int

    def __str__(self) -> str:
        return f"{self.stage}/{self.iteration}"


@dataclass(frozen=True)
class WeightsVersion:
    """Version of the policy's weights: the base, or the checkpoint of an iteration."""

    name: str
    directory: Path
    after: IterationId | None
    """Iteration that wrote the checkpoint; None for the base."""

    @property
    def is_on_disk(self) -> bool:
        return (self.directory / "config.json").is_file()


@dataclass(frozen=True)
class LoadedIteration:
    """Trajectories of one iteration, the weights that sampled them, and earlier versions of the weights."""

    id: IterationId
    trajectories: list[Trajectory]
    renderer: ChatRenderer
    model: PreTrainedModel
    """Model with the weights that, according to the run folder, sampled the trajectories."""
    version: WeightsVersion
    earlier: list[WeightsVersion]
    """Earlier versions of the weights that are on disk, the newest first."""
    deleted: list[WeightsVersion]
    """Earlier versions of the weights that were removed from disk."""


def examine_run(
    config: RunConfig, folder: RunFolder, stage: str | None, iteration: int | None, limit: int, progress: Progress
) -> MismatchReport:
    """Recompute the log-probs of an iteration with each possible fault of the engine, and report which fault explains the gap.

    Raises UsageError if rollouts or weights are missing.
    """
    loaded = load_iteration(config, folder, choose_iteration(config, folder, stage, iteration), limit)
    dtype, trials = config.model.dtype, list[Rescoring]()
    with progress.work(
        "computing log-probs", None
    ) as work:  # each earlier checkpoint adds hypotheses when it is loaded
        reference = examination.find_reference(dtype, loaded.model, loaded.trajectories)
        for hypothesis in list_hypotheses(loaded, config, folder):
            trials.append(attempt(hypothesis, loaded.model, loaded.trajectories))
            work.advance(note=hypothesis.family)
        is_past = reference.mean > ROUNDING_GAP[dtype]
        if is_past:
            fitted = examination.fit_reported(loaded.model, loaded.trajectories)
            trials.append(attempt(fitted, loaded.model, loaded.trajectories))
        setting = None if is_past else examination.fit_drawn(loaded.model, loaded.trajectories)
    best = min(trials, key=lambda trial: trial.left(reference))
    return MismatchReport(
        stage=loaded.id.stage,
        iteration=loaded.id.iteration,
        weights=loaded.version.name,
        dtype=dtype,
        num_trajectories=len(loaded.trajectories),
        num_tokens=len(reference.gaps),
        gap=reference.mean,
        rounding=ROUNDING_GAP[dtype],
        toggles=examination.rank(trials, reference),
        setting=setting,
        by_turn=examination.split(loaded.trajectories, examination.list_turns, reference, best),
        by_position=examination.split(loaded.trajectories, examination.list_positions, reference, best),
        remarks=[*list_remarks(loaded), *list_training_warnings(loaded.id, config, folder)],
    )


def choose_iteration(config: RunConfig, folder: RunFolder, stage: str | None, iteration: int | None) -> IterationId:
    """Return the last iteration with rollouts, of the given stage and number if any. Raises UsageError."""
    if not list_iterations(config, folder):
        raise UsageError(f"{folder.path} trains nothing, so it has no rollouts to examine: give a run with RFT or RL")
    sampled = [
        id for id in list_iterations(config, folder) if folder.iteration(id.stage, id.iteration).trajectories.exists()
    ]
    chosen = [id for id in sampled if stage in (None, id.stage) and iteration in (None, id.iteration)]
    if not chosen:
        there = ", ".join(map(str, sampled)) or "none"
        raise UsageError(
            f"{folder.path} has no rollouts of the given stage and iteration: give one of {there} (stage/iteration)"
        )
    return chosen[-1]


def list_iterations(config: RunConfig, folder: RunFolder) -> list[IterationId]:
    """List all iterations that have rollouts, in the order of the run."""
    return [
        IterationId(stage, number)
        for stage, section in config.training.items()
        for number in range(min(section.iterations, folder.next_iteration(stage) + 1))
    ]


def list_versions(config: RunConfig, folder: RunFolder, before: IterationId) -> list[WeightsVersion]:
    """List all versions of the weights up to the beginning of an iteration; the last version sampled its rollouts."""
    ids = list_iterations(config, folder)
    done = [each for each in ids[: ids.index(before)] if folder.iteration(each.stage, each.iteration).metrics.exists()]
    base = WeightsVersion("the base", find_model(config.model.path), None)
    return [
        base,
        *(
            WeightsVersion(f"checkpoint {each}", folder.iteration(each.stage, each.iteration).checkpoint, each)
            for each in done
        ),
    ]


def load_iteration(config: RunConfig, folder: RunFolder, id: IterationId, limit: int) -> LoadedIteration:
    """Load the rollouts and weights of an iteration. Raises UsageError if they were deleted."""
    *before, version = list_versions(config, folder, id)
    if not version.is_on_disk:
        raise UsageError(
            f"{version.name}, which sampled the rollouts of {id}, was deleted, since keep_checkpoints is "
            f"{config.keep_checkpoints}: examine a later iteration, or raise keep_checkpoints in the next run"
        )
    found = [t for t in read_last(folder.iteration(id.stage, id.iteration).trajectories) if t.sampled.any()]
    if not found:
        raise UsageError(f"no rollout of {id} holds sampled tokens: choose another iteration")
    chosen = random.Random(0).sample(found, min(limit, len(found)))
    renderer = load_renderer(find_model(config.model.path), config.model.chat)
    model = load_plain(version.directory, find_device(config.model.device), config.model.rope_scaling)
    newest = before[::-1][:MAX_EARLIER]
    kept, deleted = ([each for each in newest if each.is_on_disk is is_on_disk] for is_on_disk in (True, False))
    return LoadedIteration(id, chosen, renderer, model, version, kept, deleted)


def list_hypotheses(loaded: LoadedIteration, config: RunConfig, folder: RunFolder) -> Iterator[Hypothesis]:
    """Yield a hypothesis for each fault that the engine may have. Earlier weights are loaded one version at a time."""
    yield from tokenisation.list_hypotheses(loaded.renderer)
    yield from OTHER_DTYPES[config.model.dtype]
    yield from faults.KERNELS
    yield from faults.list_shifts(max(len(each.turns) for each in loaded.trajectories))
    for version in loaded.earlier:
        earlier = load_plain(version.directory, loaded.model.device, config.model.rope_scaling)
        yield from faults.list_stale(version.name, earlier, read_sampled_ids(version, config, folder))


def read_sampled_ids(version: WeightsVersion, config: RunConfig, folder: RunFolder) -> list[np.ndarray]:
    """Read the tokens sampled with earlier weights. A faulty engine may still have their keys and values in its cache."""
    ids = list_iterations(config, folder)
    after = ids[ids.index(version.after) + 1 :] if version.after else ids
    journals = [folder.iteration(each.stage, each.iteration).trajectories for each in after]
    journal = next(journal for journal in journals if journal.exists())
    return [trajectory.token_ids for trajectory in read_last(journal)]


def list_remarks(loaded: LoadedIteration) -> Iterator[str]:
    """Yield notes for the report: faults that were not tried, and how many turns change when decoded and tokenised again."""
    for version in loaded.deleted:
        yield f"not tried: weights and cache of {version.name}, which was deleted (keep_checkpoints)"
    if not loaded.earlier and not loaded.deleted:
        yield "not tried: earlier weights and cache, since none exist before the first update"
    counts = tokenisation.count_retokenised(loaded.renderer, loaded.trajectories)
    yield f"{counts['observations_differ']} of {counts['observations']} observations differ from their re-tokenised text"
    yield f"{counts['turns_differ']} of {counts['turns']} turns differ from their re-tokenised text, as usual"


def list_training_warnings(id: IterationId, config: RunConfig, folder: RunFolder) -> Iterator[str]:
    """Yield the log-prob gap and the warnings that training reported for an iteration."""
    file = folder.iteration(id.stage, id.iteration).metrics
    metrics = read_json(file) if file.exists() else {}
    if gap := metrics.get("logprob_gap/mean"):
        yield f"training measured {gap:.2g} nats per token, over all trained rollouts, against its own log-probs"
    for warning in list_warnings(metrics, config):
        yield f"training warned: {warning.partition(': `turnsmith')[0]}; if nothing is found here, raise --limit"
