"""Diagnosis of a gap between the log-probs of engine and policy: scores one iteration again for each possible cause."""

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
class Standing:
    """Version of the policy's weights: the base, or the checkpoint of an iteration."""

    name: str
    directory: Path
    after: IterationId | None
    """Iteration that wrote the checkpoint; None for the base."""

    @property
    def is_there(self) -> bool:
        return (self.directory / "config.json").is_file()


@dataclass(frozen=True)
class Examined:
    """Trajectories of one iteration, the weights that sampled them, and earlier versions of the weights."""

    place: IterationId
    trajectories: list[Trajectory]
    renderer: ChatRenderer
    model: PreTrainedModel
    """Model with the weights that, according to the run folder, sampled the trajectories."""
    standing: Standing
    earlier: list[Standing]
    """Earlier versions of the weights that are on disk, the newest first."""
    gone: list[Standing]
    """Earlier versions of the weights that were removed from disk."""


def examine_run(
    config: RunConfig, folder: RunFolder, stage: str | None, iteration: int | None, limit: int, progress: Progress
) -> MismatchReport:
    """Score an iteration again for each possible cause of the log-prob gap, and report which one explains it.

    Raises UsageError if rollouts or weights are missing.
    """
    case = open_case(config, folder, choose_place(config, folder, stage, iteration), limit)
    dtype, trials = config.model.dtype, list[Rescoring]()
    with progress.work("scoring again", None) as work:  # each earlier checkpoint adds hypotheses when it is loaded
        reference = examination.find_reference(dtype, case.model, case.trajectories)
        for hypothesis in list_hypotheses(case, config, folder):
            trials.append(attempt(hypothesis, case.model, case.trajectories))
            work.advance(note=hypothesis.family)
        is_past = reference.mean > ROUNDING_GAP[dtype]
        if is_past:
            fitted = examination.fit_reported(case.model, case.trajectories)
            trials.append(attempt(fitted, case.model, case.trajectories))
        setting = None if is_past else examination.fit_drawn(case.model, case.trajectories)
    best = min(trials, key=lambda trial: trial.left(reference))
    return MismatchReport(
        stage=case.place.stage,
        iteration=case.place.iteration,
        weights=case.standing.name,
        dtype=dtype,
        num_trajectories=len(case.trajectories),
        num_tokens=len(reference.gaps),
        gap=reference.mean,
        rounding=ROUNDING_GAP[dtype],
        toggles=examination.rank(trials, reference),
        setting=setting,
        by_turn=examination.split(case.trajectories, examination.list_turns, reference, best),
        by_position=examination.split(case.trajectories, examination.list_positions, reference, best),
        remarks=[*list_remarks(case), *recall_training(case.place, config, folder)],
    )


def choose_place(config: RunConfig, folder: RunFolder, stage: str | None, iteration: int | None) -> IterationId:
    """Return the requested iteration, or the last one with rollouts. Raises UsageError."""
    if not list_places(config, folder):
        raise UsageError(f"{folder.path} trains nothing, so there are no rollouts to score: give a run with RFT or RL")
    sampled = [
        place
        for place in list_places(config, folder)
        if folder.iteration(place.stage, place.iteration).trajectories.exists()
    ]
    chosen = [place for place in sampled if stage in (None, place.stage) and iteration in (None, place.iteration)]
    if not chosen:
        there = ", ".join(map(str, sampled)) or "none"
        raise UsageError(f"{folder.path} has no rollouts of such an iteration: choose one of (stage/iteration) {there}")
    return chosen[-1]


def list_places(config: RunConfig, folder: RunFolder) -> list[IterationId]:
    """List all iterations that have rollouts, in the order of the run."""
    parts = [("rft", 1)] if config.rft else []
    parts += [(stage.name, folder.next_iteration(stage.name) + 1) for stage in config.stages]
    return [IterationId(stage, number) for stage, count in parts for number in range(count)]


def list_standings(config: RunConfig, folder: RunFolder, before: IterationId) -> list[Standing]:
    """List all versions of the weights up to the beginning of an iteration; the last version sampled its rollouts."""
    places = list_places(config, folder)
    done = [
        each for each in places[: places.index(before)] if folder.iteration(each.stage, each.iteration).metrics.exists()
    ]
    base = Standing("the base", find_model(config.model.path), None)
    return [
        base,
        *(
            Standing(f"checkpoint {each}", folder.iteration(each.stage, each.iteration).checkpoint, each)
            for each in done
        ),
    ]


def open_case(config: RunConfig, folder: RunFolder, place: IterationId, limit: int) -> Examined:
    """Load the rollouts and weights of an iteration. Raises UsageError if they are gone."""
    *before, standing = list_standings(config, folder, place)
    if not standing.is_there:
        raise UsageError(
            f"{standing.name} sampled {place} and was deleted: of each stage the last {config.keep_checkpoints} are kept "
            "(keep_checkpoints): examine a later iteration, or keep more"
        )
    found = [t for t in read_last(folder.iteration(place.stage, place.iteration).trajectories) if t.sampled.any()]
    if not found:
        raise UsageError(f"no rollout of {place} holds a turn with tokens to score: choose another iteration")
    chosen = random.Random(0).sample(found, min(limit, len(found)))
    renderer = load_renderer(find_model(config.model.path), config.model.chat)
    model = load_plain(standing.directory, find_device(config.model.device))
    newest = before[::-1][:MAX_EARLIER]
    there, gone = ([each for each in newest if each.is_there is is_there] for is_there in (True, False))
    return Examined(place, chosen, renderer, model, standing, there, gone)


def list_hypotheses(case: Examined, config: RunConfig, folder: RunFolder) -> Iterator[Hypothesis]:
    """Yield every possible cause of the log-prob gap, family by family; earlier weights are loaded one at a time."""
    yield from tokenisation.list_hypotheses(case.renderer)
    yield from OTHER_DTYPES[config.model.dtype]
    yield from faults.KERNELS
    yield from faults.list_shifts(max(len(each.turns) for each in case.trajectories))
    for standing in case.earlier:
        earlier = load_plain(standing.directory, case.model.device)
        yield from faults.list_stale(standing.name, earlier, list_seen(standing, config, folder))


def list_seen(standing: Standing, config: RunConfig, folder: RunFolder) -> list[np.ndarray]:
    """Read the token ids that a version of the weights sampled, whose keys and values the engine may still cache."""
    places = list_places(config, folder)
    after = places[places.index(standing.after) + 1 :] if standing.after else places
    journals = [folder.iteration(each.stage, each.iteration).trajectories for each in after]
    journal = next(journal for journal in journals if journal.exists())
    return [trajectory.token_ids for trajectory in read_last(journal)]


def list_remarks(case: Examined) -> Iterator[str]:
    """Yield remarks: hypotheses that were not tried, and the number of tokens that re-tokenising their text changes."""
    for standing in case.gone:
        yield f"not tried: weights and cache of {standing.name}, which is gone (keep_checkpoints)"
    if not case.earlier and not case.gone:
        yield "not tried: earlier weights and cache; there was no update yet"
    counts = tokenisation.count_retokenised(case.renderer, case.trajectories)
    yield f"{counts['observations_differ']} of {counts['observations']} observations differ from their re-tokenised text"
    yield f"{counts['turns_differ']} of {counts['turns']} turns differ from their re-tokenised text, as usual"


def recall_training(place: IterationId, config: RunConfig, folder: RunFolder) -> Iterator[str]:
    """Yield the log-prob gap and the warnings that training reported for an iteration."""
    file = folder.iteration(place.stage, place.iteration).metrics
    metrics = read_json(file) if file.exists() else {}
    if gap := metrics.get("logprob_gap/mean"):
        yield f"training measured {gap:.2g} nats per token, over all trained rollouts, against its own log-probs"
    for warning in list_warnings(metrics, config):
        yield f"training warned: {warning.partition(': `turnsmith')[0]}; if nothing is found here, raise --limit"
