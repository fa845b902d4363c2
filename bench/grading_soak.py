"""Soak test of grading: gradings under load, while random processes of the grader are killed.

    python bench/grading_soak.py [--num 1000] [--check]

Gold patches must be resolved. Wrong patches and untouched trees must not be. More gradings run at once than there are cores,
beside processes that keep the cores busy. At random moments SIGKILL goes to one of

    grader        a whole grading process: another one grades its unfinished jobs
    spawner       the process that forks all sandboxes of a grader; all of them die, and the next start creates a new spawner
    supervisor    process 1 of one sandbox
    tests         the process that runs the tests in a sandbox

After the death of one of the first three, the grading ends as GRADER_FAILED with a detail that names the dead process, and is
retried. A patch can kill the test process itself, so a grading whose test process dies is repeated cold in a new sandbox. A
second death counts against the patch, so the bench kills at most one test process per grading.

`--check` exits with 1 if a verdict is wrong or missing, or if a detail does not name the dead process. Each kind of process must
have been killed at least once.
"""

import argparse
import asyncio
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from turnsmith.config import SandboxConfig
from turnsmith.git.patch_policy import read_patch
from turnsmith.grading.grading import Grader
from turnsmith.rollouts.generator import retry_lost
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks
from turnsmith.synthesis.repositories import make_patch
from turnsmith.types import Grade, Outcome, TaskTree

NUM_TASKS = 12
NUM_GRADERS = 2
GRADINGS_AT_ONCE = 3
"""Concurrent gradings of one grader."""
BATCH = 24
"""Jobs handed to a grader at once."""
TESTS_TIMEOUT_S = 120.0
TICK_S = 0.05
KILL_CHANCE = 0.1
"""Probability of a kill in a tick in which one is due."""
WEIGHTS = {"supervisor": 8, "tests": 4, "spawner": 2, "grader": 1}
"""Relative frequency of each kind of victim."""
MIN_TEST_AGE_S = 0.02
"""Least age of a test process; younger processes are git, a shell or a file being written."""
NAMED = re.compile(
    r"the sandbox died|the spawner hung up|the spawner was killed|could not start|could not be written|cannot be read"
)
"""Phrases by which a detail names the dead process."""
TAG = "/tmp/grading"
"""File in a sandbox with the number of its grading."""
REMARK = "# Looked at.\n"
"""Comment that a wrong patch adds."""


@dataclass(frozen=True)
class Job:
    """One grading and its expected result."""

    number: int
    tree: TaskTree
    patch: str
    """Empty for the untouched tree."""
    is_gold: bool


@dataclass(frozen=True)
class Verdict:
    """Grades of all attempts at a job, in order."""

    job: Job
    grades: list[Grade]

    @property
    def final(self) -> Outcome:
        return self.grades[-1].outcome


@dataclass
class Tally:
    """Verdicts and kills so far."""

    verdicts: list[Verdict] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    num_restarted: int = 0

    def count(self, *, gold: bool, resolved: bool) -> int:
        judged = [v for v in self.verdicts if v.final is not Outcome.GRADER_FAILED]
        return sum(v.job.is_gold == gold and (v.final is Outcome.RESOLVED) == resolved for v in judged)

    @property
    def deaths(self) -> list[Grade]:
        return [g for verdict in self.verdicts for g in verdict.grades if g.outcome is Outcome.GRADER_FAILED]

    @property
    def unnamed(self) -> list[str]:
        return [grade.detail for grade in self.deaths if not NAMED.search(grade.detail)]

    @property
    def num_others(self) -> int:
        return sum(not verdict.job.is_gold for verdict in self.verdicts)

    @property
    def num_lost(self) -> int:
        return sum(verdict.final is Outcome.GRADER_FAILED for verdict in self.verdicts)

    @property
    def is_clean(self) -> bool:
        wrong = self.count(gold=True, resolved=False) + self.count(gold=False, resolved=True)
        is_tried = self.deaths and self.num_others and all(self.kills[kind] for kind in WEIGHTS)
        return bool(is_tried) and not (wrong or self.num_lost or self.unnamed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=1_000, help="gradings")
    parser.add_argument("--kills", type=float, default=0.2, help="average number of kills per grading")
    parser.add_argument("--retries", type=int, default=5, help="retries of a grading after a kill")
    parser.add_argument("--hogs", type=int, default=1, help="processes that keep a core busy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure misses its requirement")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="turnsmith-soak-") as folder:
        jobs = list(make_jobs(asyncio.run(make_tasks(Path(folder))), arguments.num))
        hogs = [start(burn) for _ in range(arguments.hogs)]
        began = time.monotonic()
        tally = soak(jobs, arguments.kills, arguments.retries, random.Random(arguments.seed))
        end(hogs)
    print_table(tally, time.monotonic() - began)
    sys.exit(1 if arguments.check and not tally.is_clean else 0)


async def make_tasks(folder: Path) -> list[TaskTree]:
    """Make practice tasks."""
    provider = make_provider(SandboxConfig())
    tasks = await make_practice_tasks(
        PracticeSpec("train", NUM_TASKS, difficulty=0.5, seed=0), folder / "tasks", provider
    )
    await provider.close()
    return [TaskTree(task, tuple(folder / "tasks" / layer for layer in task.layers)) for task in tasks]


def make_jobs(trees: list[TaskTree], num: int) -> Iterator[Job]:
    """Yield two gold patches for each wrong patch; the setup of each task stores the number of the grading."""
    for number in range(num):
        tree = trees[number % len(trees)]
        task = tree.task
        is_gold = number // len(trees) % 3 != 2
        wrong = add_to(tree, ("", REMARK)[number % 2])
        tagged = task.model_copy(update={"setup": [*task.setup, f"echo {number} > {TAG}"]})
        yield Job(number, replace(tree, task=tagged), task.patch if is_gold else wrong, is_gold)


def add_to(tree: TaskTree, addition: str) -> str:
    """Return a patch that appends text to the file of the gold patch; an empty patch if the text is empty."""
    [path] = {path for file in read_patch(tree.task.patch) for path in file.paths}
    text = next(layer / path for layer in reversed(tree.layers) if (layer / path).exists()).read_text()
    return make_patch(path, text, text + addition) if addition else ""


def soak(jobs: list[Job], kills: float, retries: int, rng: random.Random) -> Tally:
    """Hand all jobs to graders, and kill processes, until each job has a verdict."""
    tally, waiting, graders = Tally(), deque(jobs), dict[Connection, GraderProcess]()
    tagged: set[str] = set()
    with make_bar() as bar:
        progress = bar.add_task("grading", total=len(jobs), note="")
        while len(tally.verdicts) < len(jobs):
            while waiting and len(graders) < NUM_GRADERS:
                grader = GraderProcess([waiting.popleft() for _ in range(min(BATCH, len(waiting)))], retries)
                graders[grader.connection] = grader
            ready = wait(list(graders), TICK_S)
            for connection in [connection for connection in graders if connection in ready]:
                if not graders[connection].listen(tally):
                    waiting.extend(left := graders.pop(connection).bury())
                    tally.num_restarted += len(left)
            if tally.kills.total() < kills * len(tally.verdicts) and rng.random() < KILL_CHANCE:
                kill_someone([grader.process.pid for grader in graders.values()], tally.kills, tagged, rng)
            note = f"{tally.kills.total()} killed, {len(tally.deaths)} gradings hit, {tally.num_restarted} restarted"
            bar.update(progress, completed=len(tally.verdicts), note=note, refresh=True)
    return tally


class GraderProcess:
    """Process that grades a batch of jobs and reports each verdict at once."""

    def __init__(self, jobs: list[Job], retries: int) -> None:
        self.jobs = {job.number: job for job in jobs}
        self.connection, theirs = multiprocessing.Pipe()
        self.process = start(grade_jobs, jobs, retries, theirs)
        theirs.close()

    def listen(self, tally: Tally) -> bool:
        """Receive one verdict. Return False if the process has ended or died."""
        try:
            number, grades = self.connection.recv()
        except (EOFError, OSError):
            return False
        tally.verdicts.append(Verdict(self.jobs.pop(number), grades))
        return True

    def bury(self) -> list[Job]:
        """Return the jobs without a verdict, after the end of the process."""
        self.process.join()
        self.connection.close()
        return list(self.jobs.values())


def start(target: Callable[..., object], *arguments: object) -> BaseProcess:
    process = multiprocessing.get_context("fork").Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def end(processes: list[BaseProcess]) -> None:
    for process in processes:
        process.kill()
        process.join()


def burn() -> None:
    while True:
        pass


def grade_jobs(jobs: list[Job], retries: int, connection: Connection) -> None:
    """Grade all jobs in a grader process."""
    asyncio.run(grade_all(jobs, retries, connection))


async def grade_all(jobs: list[Job], retries: int, connection: Connection) -> None:
    provider = make_provider(SandboxConfig())
    grader = Grader(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=GRADINGS_AT_ONCE)
    free = asyncio.Semaphore(GRADINGS_AT_ONCE)

    async def grade(job: Job) -> None:
        async with free:
            grades: list[Grade] = []
            await retry_lost(lambda: grade_once(job, grader, grades), is_lost, retries)
            connection.send((job.number, grades))

    await asyncio.gather(*map(grade, jobs))
    await provider.close()


def is_lost(grade: Grade) -> bool:
    return grade.outcome is Outcome.GRADER_FAILED


async def grade_once(job: Job, grader: Grader, grades: list[Grade]) -> Grade:
    """Grade a job without the grader's memory of equal patches, and store the grade."""
    grader.forget()
    graded = grader.grade(job.tree, job.patch) if job.patch else grader.grade_unpatched(job.tree)
    grades.append(await graded)
    return grades[-1]


def kill_someone(graders: list[int | None], kills: Counter[str], tagged: set[str], rng: random.Random) -> None:
    """Send SIGKILL to one process of a random kind, if one exists at the moment."""
    [kind] = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
    victims = find_victims([pid for pid in graders if pid], kind)
    rng.shuffle(victims)
    for pid in victims:
        if kind == "tests" and not may_be_killed(pid, tagged):
            continue
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        kills[kind] += 1
        return


def find_victims(graders: list[int], kind: str) -> list[int]:
    """Find processes of a kind: the parents are grader, spawner, supervisor, then processes in the sandbox."""
    if kind == "grader":
        return graders
    spawners = [pid for grader in graders for pid in children(grader)]
    if kind == "spawner":
        return spawners
    supervisors = [pid for spawner in spawners for pid in children(spawner)]
    if kind == "supervisor":
        return supervisors
    inside = [pid for supervisor in supervisors for pid in descendants(supervisor)]
    return [pid for pid in inside if is_running_tests(pid)]


def descendants(pid: int) -> list[int]:
    below = children(pid)
    return below + [deeper for child in below for deeper in descendants(child)]


def children(pid: int) -> list[int]:
    return [int(child) for child in read_proc(f"{pid}/task/{pid}/children").split()]


def is_running_tests(pid: int) -> bool:
    """Return True for a Python process of sufficient age."""
    stat = read_proc(f"{pid}/stat").rpartition(")")
    if "python" not in stat[0] or not stat[2]:
        return False
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - int(stat[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return age_s >= MIN_TEST_AGE_S


def may_be_killed(pid: int, tagged: set[str]) -> bool:
    """Return True once for each grading."""
    number = read_proc(f"{pid}/root{TAG}").strip()
    is_new = bool(number) and number not in tagged
    tagged.add(number)
    return is_new


def read_proc(name: str) -> str:
    """Read a file below /proc; empty if the process has ended."""
    try:
        return Path("/proc", name).read_text()
    except OSError:
        return ""


def make_bar() -> Progress:
    """Return a progress bar without a refresh thread, because graders are forked."""
    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left", style="dim"), TimeRemainingColumn(), TextColumn("{task.fields[note]}", style="dim"),
    )  # fmt: skip
    return Progress(*columns, console=Console(stderr=True), auto_refresh=False, speed_estimate_period=300)


def print_table(tally: Tally, duration_s: float) -> None:
    killed = ", ".join(f"{num} × {kind}" for kind, num in tally.kills.most_common())
    names = Counter(match[0] for grade in tally.deaths if (match := NAMED.search(grade.detail)))
    rows = [
        ("gold patches, resolved", tally.count(gold=True, resolved=True), ""),
        ("gold patches, not resolved", tally.count(gold=True, resolved=False), "0"),
        ("others, not resolved", tally.count(gold=False, resolved=False), ""),
        ("others, resolved", tally.count(gold=False, resolved=True), "0"),
        ("without a verdict after all retries", tally.num_lost, "0"),
        ("attempts ended as GRADER_FAILED", len(tally.deaths), ", ".join(f"{n} × {name}" for name, n in names.items())),
        ("of those, dead process not named", len(tally.unnamed), "0"),
        ("jobs restarted after the death of a grader", tally.num_restarted, ""),
    ]  # fmt: skip
    title = (
        f"{len(tally.verdicts)} gradings in {duration_s:.0f} s, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    table = Table("figure", "measured", "required", title=title, caption=f"killed: {killed}")
    for name, count, requirement in rows:
        table.add_row(name, str(count), requirement)
    console = Console()
    console.print(table)
    for verdict in tally.verdicts:
        if (verdict.final is Outcome.RESOLVED) != verdict.job.is_gold:
            grade = verdict.grades[-1]
            console.print(f"{verdict.job.tree.instance_id}: {grade.outcome}: {grade.detail}", markup=False)
    for detail in tally.unnamed:
        console.print(f"dead process not named: {detail}", markup=False)


if __name__ == "__main__":
    main()
