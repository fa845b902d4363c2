"""Practice tasks: bugs in generated repositories, at most one per function, which the repositories' tests detect."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.grading.testing import Suite, run_suite
from turnsmith.runs.new_folders import building
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.bugs import Bug
from turnsmith.synthesis.issues import write_issue
from turnsmith.synthesis.mutators import Mutation, find_mutations
from turnsmith.synthesis.practice.functions import HELDOUT_KINDS, TRAIN_KINDS
from turnsmith.synthesis.practice.repository import PracticeRepository, make_repository
from turnsmith.synthesis.repositories import to_tree, write_candidate, write_repository
from turnsmith.synthesis.validation import to_task, validate
from turnsmith.tasks.dataset import save_tasks
from turnsmith.types import PYTEST_COMMAND, Task

MAX_TASKS = 5_000
"""Maximum number of tasks per set, since only a limited number of distinct repository names exists."""


@dataclass(frozen=True)
class PracticeSpec:
    """Split, number, difficulty and seed of practice tasks. Random seeds contain the split, so splits share no repository."""

    split: str
    """Split of the tasks: `train`, `heldout`, or `base` (on which the base policy that ships with Turnsmith was trained)."""
    num_tasks: int
    difficulty: float
    seed: int


def draw_repositories(spec: PracticeSpec) -> Iterator[PracticeRepository]:
    """Generate repositories with distinct names, without end.

    Half of the repositories of the split `heldout` use kinds of modules that no other split uses.
    """
    names = set()
    for index in count():
        unseen = spec.split == "heldout" and index % 2 == 0
        kinds = HELDOUT_KINDS if unseen else TRAIN_KINDS
        repository = make_repository(kinds, spec.difficulty, f"{spec.split} {spec.seed} {index}")
        if repository.name not in names:
            yield repository
        names.add(repository.name)


async def make_practice_tasks(
    spec: PracticeSpec, out: Path, provider: SandboxProvider, on_task: Callable[[Task], None] = lambda task: None
) -> list[Task]:
    """Make practice tasks and write them to the new folder `out`.

    Raises UsageError if `out` is in use, if tests do not run, or if `num_tasks` exceeds MAX_TASKS. Raises SandboxError.
    """
    if spec.num_tasks > MAX_TASKS:
        raise UsageError(
            f"{spec.num_tasks} practice tasks exceed {MAX_TASKS} per set: make several sets with other seeds"
        )
    tasks: list[Task] = []
    repositories = draw_repositories(spec)
    with building(out) as folder:
        while len(tasks) < spec.num_tasks:
            made = await make_repository_tasks(next(repositories), spec, folder, provider)
            for task in made[: spec.num_tasks - len(tasks)]:
                tasks.append(task)
                on_task(task)
        save_tasks(folder, tasks)
    return tasks


async def make_repository_tasks(
    practice: PracticeRepository, spec: PracticeSpec, folder: Path, provider: SandboxProvider
) -> list[Task]:
    """Make the tasks of one generated repository, at most one per function. Raises UsageError if its tests do not run."""
    repository = write_repository(practice.name, to_tree(practice.files), folder)
    suite = Suite(PYTEST_COMMAND, tuple(sorted(path for path in practice.files if path.startswith("tests/"))))
    before = await run_suite(provider, (repository.layer,), suite)
    if not before.passing:
        reason = f"no test of the practice repository {practice.name} passes; its log ends {before.last_line!r}"
        raise UsageError(f"{reason}: raise the sandbox's limits in the configuration's section [sandbox]")
    candidates = [write_candidate(repository, Bug((bug,))) for bug in draw_bugs(practice)]
    kept, _ = await validate(provider, suite, before, candidates, num_wanted=len(candidates))
    made = {"split": spec.split, "seed": spec.seed, "difficulty": spec.difficulty}
    metas = [made | {"kind": Path(candidate.bug.mutations[0][0]).stem} for candidate, _ in kept]
    known = before.with_status("failed", "error")
    issues = [write_issue(each.report, vagueness=spec.difficulty, known_failures=known) for _, each in kept]
    return [
        to_task(*each, before, suite, issue=issue, created_by="practice", meta=meta)
        for each, issue, meta in zip(kept, issues, metas, strict=True)
    ]


def draw_bugs(practice: PracticeRepository) -> Iterator[tuple[str, Mutation]]:
    """Draw one bug for each function of a repository: first the family, then the mutation."""
    rng = random.Random(f"bugs {practice.name}")
    for module in practice.modules:
        path = f"{practice.name}/{module.name}.py"
        found = find_mutations(practice.files[path])
        for function in module.functions:
            mine = [mutation for mutation in found if mutation.function == function.name]
            family = rng.choice(sorted({mutation.family for mutation in mine}))
            yield path, rng.choice([mutation for mutation in mine if mutation.family == family])
