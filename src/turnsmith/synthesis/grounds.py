"""A package made ready for bugs: its clean tree, its suite, what each test file calls, and all that could be broken."""

import asyncio
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import libcst as cst

from turnsmith.errors import UsageError
from turnsmith.grading.testing import Suite, SuiteReport, run_suite
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.mutators import PROCEDURAL, Mutation, find_mutations
from turnsmith.synthesis.packages import find_modules, find_steady_suite, find_suite
from turnsmith.synthesis.reach import Reach, find_reach
from turnsmith.synthesis.repositories import Repository, write_repository
from turnsmith.synthesis.sources import PackageSource, fetch_source


@dataclass(frozen=True)
class Ground:
    """A package, ready for bugs."""

    repository: Repository
    suite: Suite
    before: SuiteReport
    """The suite on the clean tree."""
    reach: Reach
    found: dict[str, list[Mutation]]
    """Path → what could be done to that file."""


async def prepare(package: str, folder: Path, provider: SandboxProvider) -> Ground:
    """Fetch a package, learn its suite and what each test file calls. Raises UsageError, SandboxError."""
    source = await asyncio.to_thread(fetch_source, package)
    modules, suite = find_modules(source), find_suite(source)
    repository = await asyncio.to_thread(_write_clean, source, folder)
    suite, before = await find_steady_suite(provider, repository, suite)
    suite, before = await _drop_dependent(provider, repository, suite, before)
    reach = await find_reach(provider, (repository.layer,), suite)
    found = await asyncio.to_thread(_find_bugs, source, modules)
    return Ground(repository, suite, before, reach, found)


def _write_clean(source: PackageSource, folder: Path) -> Repository:
    """The shared layer, anew where a killed process has left one."""
    repository = Repository(source.title, source.tree, folder)
    shutil.rmtree(repository.layer, ignore_errors=True)
    return write_repository(source.title, source.tree, folder)


async def _drop_dependent(
    provider: SandboxProvider, repository: Repository, suite: Suite, before: SuiteReport
) -> tuple[Suite, SuiteReport]:
    """Leave out tests that do not end alike when their file runs alone, since not all files will run for each bug."""
    results = dict(before.results)
    for file in suite.files:
        alone = await run_suite(provider, [repository.layer], replace(suite, files=(file,)))
        for test in [test for test in results if test.startswith(f"{file}::")]:
            if alone.status(test) != before.status(test):
                del results[test]
    if not results:
        raise UsageError(f"no test of {repository.name} holds when its file runs alone: take another package")
    return suite, replace(before, results=results)


def _find_bugs(source: PackageSource, modules: list[str]) -> dict[str, list[Mutation]]:
    """Nothing of a file that is not Python of today in UTF-8."""
    found: dict[str, list[Mutation]] = {}
    for path in modules:
        try:
            found[path] = find_mutations(source.tree[path].content.decode(), PROCEDURAL)
        except (UnicodeDecodeError, cst.ParserSyntaxError):
            continue
    return found
