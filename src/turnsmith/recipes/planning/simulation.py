"""Simulation of the collection of one iteration on a virtual clock, by the rules of `rollouts.generator`.

At most `concurrency` episodes hold a sandbox. An episode alternates between the engine (sampling) and a core (its command);
then it frees its sandbox and waits for one of the grading workers. The engine's sequences advance at one speed, which
depends on their number. Cores are shared in the same way.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from turnsmith.recipes.planning.workload import EpisodeSize

START_S = 0.01
"""Seconds on one core in which a sandbox starts, assumed (docs/results.md has measurements)."""

Speed = Callable[[int], float]
"""Function from the number of jobs that share a resource to the work that each of them gets done per second."""


@dataclass(frozen=True)
class Collected:
    """Result of a simulation, in seconds of the virtual clock."""

    seconds: float
    """Time until the last episode is graded."""
    tail_s: float
    """Time for which fewer than half of the slots hold an episode, after the last one was started."""
    mean_sampling: float
    """Mean number of sequences in the engine."""
    mean_cores: float
    """Mean number of busy cores."""
    mean_grading: float
    """Mean number of busy grading workers."""
    command_s: float
    """Seconds of all commands and gradings together, with their waiting for cores."""


@dataclass
class SharedResource:
    """Resource whose jobs all advance at one speed. Time is measured in work per job, so each job has a fixed end."""

    speed: Speed
    work: float = 0.0
    """Work that a job would have got done since the start of the simulation."""
    jobs: list[tuple[float, int]] = field(default_factory=list)
    """Heap of (work at which the job ends, episode)."""
    job_s: float = 0.0
    """Seconds of all jobs together."""

    def add(self, work: float, episode: int) -> None:
        """Add a job."""
        heapq.heappush(self.jobs, (self.work + work, episode))

    def time_left(self) -> float:
        """Return the seconds until the next job ends, if none is added; infinity without jobs."""
        return (self.jobs[0][0] - self.work) / self.speed(len(self.jobs)) if self.jobs else float("inf")

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.job_s += seconds * len(self.jobs)
        if self.jobs:
            self.work += seconds * self.speed(len(self.jobs))

    def pop_ended(self) -> Iterator[int]:
        """Remove the jobs that have ended, and yield their episodes."""
        while self.jobs and self.jobs[0][0] <= self.work + 1e-9 * (1 + self.work):
            yield heapq.heappop(self.jobs)[1]


def simulate(
    episodes: Sequence[EpisodeSize],
    speed: Speed,
    *,
    concurrency: int,
    num_cores: float,
    num_graders: int,
) -> Collected:
    """Simulate the collection of episodes. `speed` gives tokens per second of a sequence; prompts count as in `count_work`."""
    engine, cores = SharedResource(speed), SharedResource(lambda num: min(1.0, num_cores / num))
    queue, steps, grading = (
        deque(range(len(episodes))),
        [play(episode) for episode in episodes],
        deque[int](),
    )
    now, running, num_grading, low_since = 0.0, 0, 0, 0.0
    is_graded, core_s, grading_s = set[int](), 0.0, 0.0

    def move_on(episode: int) -> bool:
        """Start the next step of an episode; return False if it has none left."""
        where, work = next(steps[episode], ("end", 0.0))
        if where != "end":
            (engine if where == "engine" else cores).add(work, episode)
        return where != "end"

    for _ in count():
        while queue and running < concurrency:
            running += move_on(queue.popleft())
        while grading and num_grading < num_graders:
            episode = grading.popleft()
            is_graded.add(episode)
            num_grading += 1
            cores.add(episodes[episode].grade_s, episode)
        if running >= concurrency / 2 or queue:
            low_since = now
        passed = min(engine.time_left(), cores.time_left())
        if passed == float("inf"):
            break
        now += passed
        grading_s += passed * num_grading
        core_s += passed * min(num_cores, len(cores.jobs))
        for resource in (engine, cores):
            resource.advance(passed)
        for episode in [*engine.pop_ended(), *cores.pop_ended()]:
            if episode in is_graded:
                num_grading -= 1
            elif not move_on(episode):
                running -= 1
                grading.append(episode)
    return Collected(now, now - low_since, engine.job_s / now, core_s / now, grading_s / now, cores.job_s)


def play(episode: EpisodeSize) -> Iterator[tuple[str, float]]:
    """Yield the steps of an episode: the resource and the work, in tokens or seconds."""
    yield "cores", START_S
    given = episode.prompt
    for turn in episode.turns:
        yield "engine", count_work(given, turn.sampled)
        yield "cores", turn.act_s
        given = turn.observed


PREFILL_SHARE = 0.02
"""Work of a prompt token relative to a sampled one, assumed: engines compute prompts in parallel."""


def count_work(given: int, sampled: int) -> float:
    """Count the work of a turn in sampled tokens."""
    return sampled + PREFILL_SHARE * given
