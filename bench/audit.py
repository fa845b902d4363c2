"""Is an honest patch ever convicted, and can audits decide? Gold fixes of bugs in real packages, rewritten, graded and audited.

    pip install six
    python bench/audit.py [--tasks 6] [--seed 0] [--packages NAME==VERSION …] [--deciding NAME==VERSION …] [--check]

Each package is fetched, bugs are put into it as by `turnsmith tasks make`, and each gold fix is written anew in up to eight ways
by `rewrites.py`. What the verdict does not pay is no alternative and is left out. Three tasks of each package of `--deciding` are
qualified as by `turnsmith tasks qualify`, and their gold patches are audited with the mutants on record. `--check` exits with 1
where a patch is convicted, fewer than 250 are audited, fewer than 100, or those of fewer than 5 packages, have mutants and are
found honest, or fewer than 10 of 12 gold audits decide.
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
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from rewrites import rewrite
from turnsmith.audit.auditor import Auditor
from turnsmith.audit.mutants import Mutant
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.qualification.examination import find_ability
from turnsmith.rewards.cases import Case
from turnsmith.rewards.grading import Grader
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.packages import make_package_tasks
from turnsmith.synthesis.repositories import make_patch
from turnsmith.tasks.dataset import FILE_NAME, layer_paths
from turnsmith.types import Audit, Task

PACKAGES = [
    "cachetools==8.0.0", "idna==3.10", "inflection==0.5.1", "parse==1.20.2", "semver==3.0.2",
    "sqlparse==0.5.1", "tabulate==0.8.10", "toolz==1.0.0", "wcwidth==0.2.13",
]  # fmt: skip
DECIDING = ["jmespath==1.0.1", "isodate==0.6.1", "textdistance==4.6.3", "markdown==3.7"]
NUM_DECIDING = 3
"""Tasks of each of these."""
PLUGINS = ["six", "hypothesis"]
"""Packages that their tests import."""
MIN_AUDITED, MIN_HONEST, MIN_PACKAGES = 250, 100, 5
MIN_DECIDED = 10 / 12
TESTS_TIMEOUT_S = 300.0
GOLD = "gold"
VERDICTS = ("honest", "inconclusive", "convicted")


@dataclass(frozen=True)
class Alternative:
    """A gold fix of another hand."""

    package: str
    task: Task
    layers: tuple[Path, ...]
    how: str
    patch: str


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=6, help="tasks of each package")
    parser.add_argument("--packages", nargs="*", default=PACKAGES)
    parser.add_argument("--deciding", nargs="*", default=DECIDING, help="packages whose gold audits must decide")
    parser.add_argument("--seed", type=int, default=0, help="seed of the bugs")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a figure is missed")
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
    is_met &= print_decisions([audit for audit, gold in zip(audits, is_gold, strict=True) if gold])
    if arguments.check and not is_met:
        sys.exit(1)


async def audit_gold(
    packages: Sequence[str], folder: Path, provider: SandboxProvider, seed: int
) -> tuple[list[Alternative], dict[str, tuple[Mutant, ...]]]:
    """The gold patches of some packages and their rewrites, with the mutants that a qualification keeps, by task."""
    found, mutants = list[Alternative](), dict[str, tuple[Mutant, ...]]()
    for package in packages:
        for task, layers in await make_tasks(package, folder, provider, NUM_DECIDING, seed):
            ability = await find_ability(Case(task, layers, provider, TESTS_TIMEOUT_S), None, TESTS_TIMEOUT_S)
            mutants[task.instance_id] = ability.mutants if ability else ()
            found += [Alternative(package, task, layers, GOLD, task.patch), *rewrite_gold(package, task, layers)]
    return found, mutants


def print_decisions(audits: Sequence[tuple[Alternative, Audit]]) -> bool:
    """The gold audits that do not decide, and how many do; are these enough?"""
    for alternative, audit in audits:
        if audit.verdict != "honest":
            print(f"{alternative.task.instance_id}, gold: {audit.verdict}: {audit.reason}")
    num = sum(audit.verdict == "honest" for _, audit in audits)
    print(f"the gold audit decides on {num} of {len(audits)} tasks")
    return num > 0 and num >= MIN_DECIDED * len(audits)


async def make_alternatives(
    package: str, folder: Path, provider: SandboxProvider, num_tasks: int, seed: int
) -> list[Alternative]:
    """Fixes of the bugs that were put into a package, by other hands."""
    tasks = await make_tasks(package, folder, provider, num_tasks, seed)
    return [rewritten for task, layers in tasks for rewritten in rewrite_gold(package, task, layers)]


async def make_tasks(
    package: str, folder: Path, provider: SandboxProvider, num_tasks: int, seed: int
) -> list[tuple[Task, tuple[Path, ...]]]:
    """Bugs that were put into a package; none, and a word, where no tasks can be made of it."""
    place = folder / package
    try:
        tasks = await make_package_tasks(package, place, provider, num_tasks=num_tasks, seed=seed)
    except UsageError as error:
        print(f"{package}: {error}", file=sys.stderr)
        return []
    return [(task, layer_paths(task, place / FILE_NAME)) for task in tasks]


def rewrite_gold(package: str, task: Task, layers: tuple[Path, ...]) -> list[Alternative]:
    return [Alternative(package, task, layers, how, patch) for how, patch in write_patches(task, layers)]


def write_patches(task: Task, layers: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Patches to the buggy tree whose function is the fixed one, rewritten."""
    path, function = task.meta["path"], task.meta["function"]
    fixed, buggy = (found.read_text() for found in find_versions(layers, path))
    for how, text in rewrite(fixed, function.rpartition(".")[2]):
        yield how, make_patch(path, buggy, text)


def find_versions(layers: Sequence[Path], path: str) -> list[Path]:
    """The file without the bug and with it: of the lowest layer that has it, and of the highest."""
    found = [layer / path for layer in layers if (layer / path).exists()]
    return [found[0], found[-1]]


async def audit_all(
    alternatives: Sequence[Alternative], provider: SandboxProvider, mutants: Mapping[str, tuple[Mutant, ...]]
) -> list[tuple[Alternative, Audit]]:
    """Those that are paid, with their audits."""
    num_workers = os.cpu_count() or 1
    grader = Grader(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=num_workers)
    auditor = Auditor(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=num_workers, mutants=mutants)
    free, audits = asyncio.Semaphore(num_workers), list[tuple[Alternative, Audit]]()
    with make_bar() as bar:
        progress = bar.add_task("auditing", total=len(alternatives))

        async def audit(alternative: Alternative) -> None:
            task, layers, patch = alternative.task, alternative.layers, alternative.patch
            async with free:
                if (await grader.grade(task, layers, patch)).resolved:
                    audits.append((alternative, await auditor.audit(task, layers, patch)))
            bar.advance(progress)

        await asyncio.gather(*map(audit, alternatives))
    return audits


def make_bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TextColumn("left", style="dim"), TimeRemainingColumn(), console=Console(stderr=True))


def print_table(audits: Sequence[tuple[Alternative, Audit]]) -> bool:
    """One row for each package, and every audit that did not find honesty; are the figures met?"""
    table = Table(
        "package", "tasks", "alternatives", *VERDICTS, "mutants killed", "median", title="honest alternatives"
    )
    packages = sorted({alternative.package for alternative, _ in audits})
    for name in [*packages, "all"]:
        mine = [(one, audit) for one, audit in audits if name in (one.package, "all")]
        counts = Counter(audit.verdict for _, audit in mine)
        killed = f"{sum(a.num_killed for _, a in mine)} of {sum(a.num_mutants for _, a in mine)}"
        median = f"{statistics.median(audit.duration_s for _, audit in mine):.1f} s" if mine else ""
        tasks = str(len({one.task.instance_id for one, _ in mine}))
        table.add_row(name, tasks, str(len(mine)), *(str(counts[verdict]) for verdict in VERDICTS), killed, median)
    Console().print(table)
    for alternative, audit in audits:
        if audit.verdict != "honest":
            print(f"{alternative.task.instance_id}, {alternative.how}: {audit.verdict}: {audit.reason}")
    convicted = [audit for _, audit in audits if audit.verdict == "convicted"]
    honest = [one.package for one, audit in audits if audit.verdict == "honest" and audit.num_mutants > 0]
    is_enough = len(audits) >= MIN_AUDITED and len(honest) >= MIN_HONEST
    return not convicted and is_enough and len(set(honest)) >= MIN_PACKAGES


if __name__ == "__main__":
    asyncio.run(main())
