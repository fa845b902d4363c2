"""Sizes of episodes and speeds of engine and trainer, from the RL iterations of a finished run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean

from turnsmith.errors import UsageError
from turnsmith.recipes.planning.simulation import Collected
from turnsmith.recipes.planning.workload import EpisodeSize, TurnSize, Workload
from turnsmith.runs.folder import IterationFolder, RunFolder, read_json
from turnsmith.runs.journal import read_last
from turnsmith.types import Trajectory

NUM_ROUNDS, NUM_STEPS = 4, 14
"""Rounds in which both scales are found in turn, and bisection steps of each."""
SCALES = (1e-3, 1e3)
"""Smallest and largest scale."""


@dataclass(frozen=True)
class MeasuredIteration:
    """Sizes and seconds of one RL iteration."""

    episodes: tuple[EpisodeSize, ...]
    collect_s: float
    train_s: float
    tokens_trained: float
    signal: float
    """Share of groups with signal."""

    @property
    def seconds(self) -> float:
        """Seconds of the whole iteration."""
        return self.collect_s + self.train_s


@dataclass(frozen=True)
class Calibration:
    """Speeds measured in a run."""

    engine_scale: float
    """Factor by which the engine is faster than its formula says."""
    core_scale: float
    """Seconds of a core for each recorded second of a command or grading, which waits for cores at times."""
    trained_per_s: float
    """Tokens that training computes per second of an iteration, with all its overheads."""


def read_run(folder: RunFolder) -> list[MeasuredIteration]:
    """Read the RL iterations of a run. Raises UsageError if fewer than two of them are finished."""
    files = [IterationFolder(file.parent) for file in sorted(folder.path.glob("stages/*/*/metrics.json"))]
    measured = [read_iteration(each) for each in files if "time/collect_s" in read_json(each.metrics)]
    if len(measured) < 2:
        raise UsageError(f"{folder.path} has {len(measured)} finished RL iterations, and a calibration needs two")
    return measured


def read_iteration(files: IterationFolder) -> MeasuredIteration:
    """Read sizes and seconds of one iteration."""
    metrics = read_json(files.metrics)
    return MeasuredIteration(
        tuple(measure_episode(trajectory) for trajectory in read_last(files.trajectories) if trajectory.turns),
        metrics["time/collect_s"],
        metrics["time/train_s"],
        metrics.get("tokens/trained", 0.0),
        metrics["groups/with_signal"] / metrics["groups/all"],
    )


def measure_episode(trajectory: Trajectory) -> EpisodeSize:
    """Measure the sizes of an episode. Its grading counts only if it was not shared with an equal patch."""
    starts = [*(turn.start for turn in trajectory.turns[1:]), max(len(trajectory.token_ids), trajectory.turns[-1].end)]
    turns = tuple(
        TurnSize(turn.end - turn.start, following - turn.end, turn.act_s)
        for turn, following in zip(trajectory.turns, starts, strict=True)
    )
    grade = trajectory.grade
    return EpisodeSize(trajectory.turns[0].start, turns, grade.duration_s if grade and not grade.shared else 0.0)


Collect = Callable[[Sequence[EpisodeSize], float], Collected]
"""Function from episodes and scale of the engine to the simulated collection."""


def calibrate(iterations: Sequence[MeasuredIteration], collect: Collect) -> Calibration:
    """Find the speeds with which simulations have the measured mean seconds of collections and of commands."""
    wanted_s = fmean(each.collect_s for each in iterations)
    wanted_command_s = fmean(find_command_s(each.episodes) for each in iterations)
    slowness, core = 1.0, 1.0
    for _ in range(NUM_ROUNDS):
        core = bisect(partial(mean_command_s, iterations, collect, slowness), wanted_command_s)
        slowness = bisect(partial(mean_collect_s, iterations, collect, core), wanted_s)
    trained = sum(each.tokens_trained for each in iterations) / sum(each.train_s for each in iterations)
    return Calibration(1 / slowness, core, trained)


def bisect(rising: Callable[[float], float], wanted: float) -> float:
    """Find the scale at which a rising function has the wanted value, on a logarithmic scale."""
    low, high = SCALES
    for _ in range(NUM_STEPS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if rising(middle) > wanted else (middle, high)
    return (low * high) ** 0.5


def mean_collect_s(iterations: Sequence[MeasuredIteration], collect: Collect, core: float, slowness: float) -> float:
    """Return the mean seconds of the simulated collections."""
    return fmean(collect(scale_commands(each.episodes, core), 1 / slowness).seconds for each in iterations)


def mean_command_s(iterations: Sequence[MeasuredIteration], collect: Collect, slowness: float, core: float) -> float:
    """Return the mean seconds of all commands and gradings of the simulated collections."""
    return fmean(collect(scale_commands(each.episodes, core), 1 / slowness).command_s for each in iterations)


def find_command_s(episodes: Sequence[EpisodeSize]) -> float:
    """Return the recorded seconds of all commands and gradings."""
    return sum(episode.grade_s + sum(turn.act_s for turn in episode.turns) for episode in episodes)


def scale_commands(episodes: Sequence[EpisodeSize], core: float) -> list[EpisodeSize]:
    """Convert recorded seconds of commands and gradings into seconds of a core."""
    return [
        replace(
            each,
            grade_s=core * each.grade_s,
            turns=tuple(replace(turn, act_s=core * turn.act_s) for turn in each.turns),
        )
        for each in episodes
    ]


def pool(iterations: Sequence[MeasuredIteration], core_scale: float, source: str) -> Workload:
    """Join the episodes of all iterations into a workload, in seconds of a core."""
    episodes = [episode for each in iterations for episode in each.episodes]
    return Workload(tuple(scale_commands(episodes, core_scale)), fmean(each.signal for each in iterations), source)
