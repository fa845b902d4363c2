"""Audits of honest patches: the number that fail, and the number of gold patches on which an audit can decide.

    pip install six
    python bench/audit.py [--tasks 6] [--seed 0] [--packages NAME==VERSION …] [--deciding NAME==VERSION …] [--check]

The bench fetches each package, puts bugs into it as `turnsmith tasks make` does, and rewrites each gold patch in up to eight ways
(`rewrites.py`). The grader grades every rewritten patch, and the auditor audits the resolved ones. The bench also qualifies
three tasks of each package of `--deciding`, as `turnsmith tasks qualify` does. Their gold patches, and the rewrites of these, are
audited with the stored mutants. `--check` exits with 1 if a patch fails its audit, or if a figure is below its minimum:

- 250 patches audited,
- 100 patches of 5 packages with mutants and the verdict honest,
- 3 tasks of each package of `--deciding`, and 10 of 12 gold audits with the verdict honest.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from rewrites import rewrite
from turnsmith.audit.auditor import Auditor
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.grading.cases import Case
from turnsmith.grading.grading import Grader
from turnsmith.qualification.examination import find_ability
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.packages import make_package_tasks
from turnsmith.synthesis.repositories import make_patch
from turnsmith.tasks.dataset import FILE_NAME, layer_paths
from turnsmith.types import Audit, Mutant, TaskTree

PACKAGES = [
    "cachetools==8.0.0", "idna==3.10", "inflection==0.5.1", "parse==1.20.2", "semver==3.0.2",
    "sqlparse==0.5.1", "tabulate==0.8.10", "toolz==1.0.0", "wcwidth==0.2.13",
]  # fmt: skip
DECIDING = ["jmespath==1.0.1", "isodate==0.6.1", "textdistance==4.6.3", "markdown==3.7"]
NUM_DECIDING = 3
"""Number of tasks of each package of `--deciding`."""
PLUGINS = ["six", "hypothesis"]
"""Packages that the tests import."""
MIN_AUDITED, MIN_HONEST, MIN_PACKAGES = 250, 100, 5
MIN_DECIDED = Fraction(10, 12)
TESTS_TIMEOUT_S = 300.0
GOLD = "gold"
VERDICTS = ("honest", "inconclusive", "failed")
"""Columns of the table."""


@dataclass(frozen=True)
class Alternative:
    """A gold patch, or a rewrite of one."""

    package: str
    tree: TaskTree
    how: str
    patch: str


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=6, help="tasks of each package")
    parser.add_argument("--packages", nargs="*", default=PACKAGES)
    parser.add_argument("--deciding", nargs="*", default=DECIDING, help="packages whose gold audits must be honest")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bugs")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure misses its requirement")
    arguments = parser.parse_args()
    provider = make_provider(SandboxConfig(kind="local", test_plugins=PLUGINS))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        alternatives = [
            alternative
            for package in arguments.packages
            for alternative in await make_alternatives(package, Path(folder), provider, arguments.tasks, arguments.seed)
        ]
        decided, mutants = await audit_gold(arguments.deciding, Path(folder, "deciding"), provider, arguments.seed)
        audits = await audit_all([*alternatives, *decided], provider, mutants)
    await provider.close()
    is_gold = [alternative.how == GOLD for alternative, _ in audits]
    rewritten = [audit for audit, gold in zip(audits, is_gold, strict=True) if not gold]
    is_met = print_table(rewritten)
    print_recorded(rewritten, mutants)
    golds = [audit for audit, gold in zip(audits, is_gold, strict=True) if gold]
    is_met &= print_decisions(golds, NUM_DECIDING * len(arguments.deciding))
    if arguments.check and not is_met:
        sys.exit(1)


async def audit_gold(
    packages: Sequence[str], folder: Path, provider: SandboxProvider, seed: int
) -> tuple[list[Alternative], dict[str, tuple[Mutant, ...]]]:
    """Return gold patches and their rewrites, and the mutants that qualification stores for each task."""
    found, mutants = list[Alternative](), dict[str, tuple[Mutant, ...]]()
    for package in packages:
        for tree in await make_tasks(package, folder, provider, NUM_DECIDING, seed):
            ability = await find_ability(Case(tree, provider, TESTS_TIMEOUT_S), None, TESTS_TIMEOUT_S)
            mutants[tree.instance_id] = ability.mutants if ability else ()
            found += [Alternative(package, tree, GOLD, tree.task.patch), *rewrite_gold(package, tree)]
    return found, mutants


def print_recorded(audits: Sequence[tuple[Alternative, Audit]], mutants: Mapping[str, tuple[Mutant, ...]]) -> None:
    """Print how many patches were audited with stored mutants, and how many of these failed."""
    verdicts = [audit.verdict for one, audit in audits if mutants.get(one.tree.instance_id)]
    num_mutants = sum(map(len, mutants.values()))
    print(f"{len(verdicts)} patches were audited with stored mutants ({num_mutants} in all tasks)", end=", ")
    print(f"{verdicts.count('failed')} failed the audit")


def print_decisions(audits: Sequence[tuple[Alternative, Audit]], num_asked: int) -> bool:
    """Print the gold audits and their verdicts. Return True if enough of them are honest."""
    for alternative, audit in audits:
        if audit.verdict != "honest":
            print(f"{alternative.tree.instance_id}, gold: {describe(audit)}")
    num_honest, required = sum(audit.verdict == "honest" for _, audit in audits), ceil(MIN_DECIDED * num_asked)
    print(f"{num_honest} of {num_asked} gold audits are honest, {required} required; {len(audits)} were audited")
    return 0 < num_asked == len(audits) and num_honest >= required


def describe(audit: Audit) -> str:
    return f"{audit.verdict}: {audit.reason}"


async def make_alternatives(
    package: str, folder: Path, provider: SandboxProvider, num_tasks: int, seed: int
) -> list[Alternative]:
    """Make bugs in a package, and rewrite their gold patches."""
    trees = await make_tasks(package, folder, provider, num_tasks, seed)
    return [rewritten for tree in trees for rewritten in rewrite_gold(package, tree)]


async def make_tasks(
    package: str, folder: Path, provider: SandboxProvider, num_tasks: int, seed: int
) -> list[TaskTree]:
    """Put bugs into a package. Return no tasks and print the reason if this is not possible."""
    place = folder / package
    try:
        tasks = await make_package_tasks(package, place, provider, num_tasks=num_tasks, seed=seed)
    except UsageError as error:
        print(f"{package}: {error}", file=sys.stderr)
        return []
    return [TaskTree(task, layer_paths(task, place / FILE_NAME)) for task in tasks]


def rewrite_gold(package: str, tree: TaskTree) -> list[Alternative]:
    return [Alternative(package, tree, how, patch) for how, patch in write_patches(tree)]


def write_patches(tree: TaskTree) -> Iterator[tuple[str, str]]:
    """Yield the name of each rewrite and its patch against the buggy tree."""
    path, function = tree.task.meta["path"], tree.task.meta["function"]
    fixed, buggy = (found.read_text() for found in find_versions(tree.layers, path))
    for how, text in rewrite(fixed, function.rpartition(".")[2]):
        yield how, make_patch(path, buggy, text)


def find_versions(layers: Sequence[Path], path: str) -> list[Path]:
    """Return the fixed file from the lowest layer, and the buggy file from the highest."""
    found = [layer / path for layer in layers if (layer / path).exists()]
    return [found[0], found[-1]]


async def audit_all(
    alternatives: Sequence[Alternative], provider: SandboxProvider, mutants: Mapping[str, tuple[Mutant, ...]]
) -> list[tuple[Alternative, Audit]]:
    """Grade all patches, and audit the resolved ones."""
    num_workers = os.cpu_count() or 1
    grader = Grader(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=num_workers)
    auditor = Auditor(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=num_workers, mutants=mutants)
    free, audits = asyncio.Semaphore(num_workers), list[tuple[Alternative, Audit]]()
    with make_bar() as bar:
        progress = bar.add_task("auditing", total=len(alternatives))

        async def audit(alternative: Alternative) -> None:
            tree, patch = alternative.tree, alternative.patch
            async with free:
                if (await grader.grade(tree, patch)).resolved:
                    audits.append((alternative, await auditor.audit(tree, patch)))
            bar.advance(progress)

        await asyncio.gather(*map(audit, alternatives))
    return audits


def make_bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TextColumn("left", style="dim"), TimeRemainingColumn(), console=Console(stderr=True))


def print_table(audits: Sequence[tuple[Alternative, Audit]]) -> bool:
    """Print a row per package and every audit that is not `honest`. Return True if all requirements are met."""
    table = Table("package", "tasks", "patches", *VERDICTS, "mutants killed", "median", title="honest patches")
    packages = sorted({alternative.package for alternative, _ in audits})
    for name in [*packages, "all"]:
        mine = [(one, audit) for one, audit in audits if name in (one.package, "all")]
        counts = Counter[str](audit.verdict for _, audit in mine)
        killed = f"{sum(a.num_killed for _, a in mine)} of {sum(a.num_mutants for _, a in mine)}"
        median = f"{statistics.median(audit.duration_s for _, audit in mine):.1f} s" if mine else ""
        tasks = str(len({one.tree.instance_id for one, _ in mine}))
        table.add_row(name, tasks, str(len(mine)), *(str(counts[verdict]) for verdict in VERDICTS), killed, median)
    Console().print(table)
    for alternative, audit in audits:
        if audit.verdict != "honest":
            print(f"{alternative.tree.instance_id}, {alternative.how}: {describe(audit)}")
    failed = [audit for _, audit in audits if audit.has_failed]
    honest = [one.package for one, audit in audits if audit.verdict == "honest" and audit.num_mutants > 0]
    is_enough = len(audits) >= MIN_AUDITED and len(honest) >= MIN_HONEST
    return not failed and is_enough and len(set(honest)) >= MIN_PACKAGES


if __name__ == "__main__":
    asyncio.run(main())
