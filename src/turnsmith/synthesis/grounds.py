"""Preparation of a package for bugs: source tree, test suite, lines that each test file calls, possible mutations."""

import asyncio
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.grading.testing import Suite, SuiteReport, run_suite
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.mutators import PROCEDURAL, Mutation
from turnsmith.synthesis.packages import find_bugs, find_modules, find_steady_suite, find_suite
from turnsmith.synthesis.reach import Reach, find_reach
from turnsmith.synthesis.repositories import Repository, write_repository
from turnsmith.synthesis.sources import PackageSource, fetch_source


@dataclass(frozen=True)
class Ground:
    """Package prepared for the insertion of bugs."""

    repository: Repository
    suite: Suite
    before: SuiteReport
    """Report of the test suite's run without a bug."""
    reach: Reach
    found: dict[str, list[Mutation]]
    """Path of a source file → its possible mutations."""


async def prepare(package: str, folder: Path, provider: SandboxProvider) -> Ground:
    """Fetch a package, run its test suite, and record the lines that each test file calls. Raises UsageError, SandboxError."""
    source = await asyncio.to_thread(fetch_source, package)
    modules, suite = find_modules(source), find_suite(source)
    repository = await asyncio.to_thread(_write_clean, source, folder)
    suite, before = await find_steady_suite(provider, repository, suite)
    suite, before = await _drop_dependent(provider, repository, suite, before)
    reach = await find_reach(provider, (repository.layer,), suite)
    found = await asyncio.to_thread(find_bugs, source.tree, modules, PROCEDURAL)
    return Ground(repository, suite, before, reach, found)


def _write_clean(source: PackageSource, folder: Path) -> Repository:
    """Write the package's source tree as a layer; replace a layer that a killed process left."""
    repository = Repository(source.title, source.tree, folder)
    shutil.rmtree(repository.layer, ignore_errors=True)
    return write_repository(source.title, source.tree, folder)


async def _drop_dependent(
    provider: SandboxProvider, repository: Repository, suite: Suite, before: SuiteReport
) -> tuple[Suite, SuiteReport]:
    """Drop the tests whose result differs if their file runs alone, since later runs execute only some files."""
    results = dict(before.results)
    for file in suite.files:
        alone = await run_suite(provider, [repository.layer], replace(suite, files=(file,)))
        for test in [test for test in results if test.startswith(f"{file}::")]:
            if alone.status(test) != before.status(test):
                del results[test]
    if not results:
        raise UsageError(f"no test of {repository.name} passes when its file runs alone: take another package")
    return suite, replace(before, results=results)
