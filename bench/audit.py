"""Is an honest patch ever convicted? Gold fixes of bugs in real packages, rewritten so that they do the same, graded and audited.

    python bench/audit.py [--tasks 4] [--packages NAME==VERSION …] [--check]

Each package is fetched, bugs are put into it as by `turnsmith tasks make`, and each gold fix is written anew in up to eight ways
by `rewrites.py`. What the verdict does not pay is no alternative and is left out. `--check` exits with 1 where any is convicted,
or where fewer than 100, or those of fewer than 5 packages, have mutants and are found honest.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from rewrites import rewrite
from turnsmith.audit.auditor import Auditor
from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
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
MIN_HONEST, MIN_PACKAGES = 100, 5
TESTS_TIMEOUT_S = 300.0
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
    parser.add_argument("--tasks", type=int, default=4, help="tasks of each package")
    parser.add_argument("--packages", nargs="*", default=PACKAGES)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a figure is missed")
    arguments = parser.parse_args()
    provider = make_provider(SandboxConfig(kind="local"))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        alternatives = [
            alternative
            for package in arguments.packages
            for alternative in await make_alternatives(package, Path(folder), provider, arguments.tasks)
        ]
        audits = await audit_all(alternatives, provider)
    await provider.close()
    is_met = print_table(audits)
    if arguments.check and not is_met:
        sys.exit(1)


async def make_alternatives(package: str, folder: Path, provider: SandboxProvider, num_tasks: int) -> list[Alternative]:
    """Fixes of the bugs that were put into a package; none, and a word, where no tasks can be made of it."""
    place = folder / package
    try:
        tasks = await make_package_tasks(package, place, provider, num_tasks=num_tasks)
    except UsageError as error:
        print(f"{package}: {error}", file=sys.stderr)
        return []
    return [
        Alternative(package, task, layers, how, patch)
        for task in tasks
        for layers in [layer_paths(task, place / FILE_NAME)]
        for how, patch in write_patches(task, layers)
    ]


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


async def audit_all(alternatives: Sequence[Alternative], provider: SandboxProvider) -> list[tuple[Alternative, Audit]]:
    """Those that are paid, with their audits."""
    num_workers = os.cpu_count() or 1
    grader = Grader(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=num_workers)
    auditor = Auditor(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=num_workers)
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
    return not convicted and len(honest) >= MIN_HONEST and len(set(honest)) >= MIN_PACKAGES


if __name__ == "__main__":
    asyncio.run(main())
