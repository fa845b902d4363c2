"""Tasks from real Python packages: find code and tests, insert bugs, keep the bugs that tests detect."""

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from shlex import quote

import libcst as cst

from turnsmith.errors import UsageError
from turnsmith.grading.patch_selection import FileClass, classify
from turnsmith.grading.testing import Suite, SuiteReport, find_test_files, run_suite
from turnsmith.runs.folder import write_json
from turnsmith.runs.new_folders import building
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.bugs import spread
from turnsmith.synthesis.issues import write_issue
from turnsmith.synthesis.mutators import FAMILIES, Mutation, Mutator, find_mutations
from turnsmith.synthesis.repositories import Repository, write_candidate, write_repository
from turnsmith.synthesis.sources import PackageSource, fetch_source
from turnsmith.synthesis.validation import Validation, to_task, validate
from turnsmith.tasks.dataset import save_tasks
from turnsmith.types import PYTEST_COMMAND, Task

TEST_NAME = re.compile(r"test_.*\.py|.*_test\.py")
SCRIPTS = {"setup.py", "conftest.py", "noxfile.py", "tasks.py", "conf.py", "versioneer.py"}
"""Names of files that get no bug, because they are build or configuration scripts and not modules of a package."""
DURATION = re.compile(r"^(\d+\.\d+)s call +(\S.*)$", re.MULTILINE)
NO_MODULE = re.compile(r"No module named '([\w.]+)'")
SLOW_TEST_S = 0.1
SUITE_TIMEOUT_S = 60.0
MAX_TRIES_PER_TASK = 12
"""Maximum number of bugs tried per requested task."""


async def make_package_tasks(
    package: str,
    out: Path,
    provider: SandboxProvider,
    *,
    num_tasks: int,
    seed: int = 0,
    on_verdict: Callable[[Validation], None] = lambda verdict: None,
) -> list[Task]:
    """Make tasks from a package (`name==version` or a git checkout) in the new folder `out`.

    The result may hold fewer tasks than requested; `making.json` counts the rejected bugs by reason. Raises UsageError if no
    task can be made.
    """
    with building(out) as folder:
        prepared = await prepare(package, folder, provider)
        repository, suite, before = prepared.repository, prepared.suite, prepared.before
        bugs = spread(find_bugs(prepared, FAMILIES), random.Random(f"{repository.name} {seed}"), FAMILIES)
        candidates = (write_candidate(repository, bug) for bug in islice(bugs, num_tasks * MAX_TRIES_PER_TASK))
        kept, reasons = await validate(provider, suite, before, candidates, num_wanted=num_tasks, on_verdict=on_verdict)
        if not kept:
            what = f"the tests of {repository.name} detect no bug ({dict(reasons)})"
            raise UsageError(f"{what}: take another package")
        meta, known = {"kind": "package", "seed": seed}, before.with_status("failed", "error")
        issues = [write_issue(each.report, vagueness=0.0, known_failures=known) for _, each in kept]
        tasks = [
            to_task(*each, before, suite, issue=issue, created_by=repository.name, meta=meta)
            for each, issue in zip(kept, issues, strict=True)
        ]
        save_tasks(folder, tasks)
        made = {"source": repository.name, "seed": seed, "num_tried": reasons.total(), "reasons": dict(reasons)}
        write_json(folder / "making.json", {**made, "suite_s": round(before.duration_s, 3)})
    return tasks


@dataclass(frozen=True)
class PreparedPackage:
    """Package prepared for the insertion of bugs."""

    repository: Repository
    modules: list[str]
    """Paths of the files that may get a bug."""
    suite: Suite
    before: SuiteReport
    """Report of the test suite's run without a bug."""


async def prepare(package: str, folder: Path, provider: SandboxProvider) -> PreparedPackage:
    """Fetch a package, write its source tree below `folder`, and run its test suite. Raises UsageError, SandboxError."""
    source = await asyncio.to_thread(fetch_source, package)
    modules, suite = find_modules(source), find_suite(source)
    repository = await asyncio.to_thread(write_repository, source.title, source.tree, folder)
    return PreparedPackage(repository, modules, *await find_stable_suite(provider, repository, suite))


def find_suite(source: PackageSource) -> Suite:
    """Find all test files of a package. Its `addopts` are ignored, as they may need missing plugins. Raises UsageError."""
    tests = sorted(path for path in source.tree if TEST_NAME.fullmatch(PurePosixPath(path).name))
    if not tests:
        raise UsageError(f"{source.title} has no test files: take a version whose source has them, or a git checkout")
    path = f"PYTHONPATH={source.import_root}:$PYTHONPATH " if source.import_root else ""
    return Suite(f"{path}{PYTEST_COMMAND} -o addopts=", tuple(tests), timeout_s=SUITE_TIMEOUT_S)


def find_modules(source: PackageSource) -> list[str]:
    """Find the files that may get a bug: modules of the import package named like the distribution, else of all packages.

    Raises UsageError if there are none.
    """
    root = source.import_root
    units = defaultdict[str, list[str]](list)
    for path in source.tree:
        below = PurePosixPath(path).relative_to(root) if PurePosixPath(path).is_relative_to(root) else None
        if below is None or below.suffix != ".py" or below.name in SCRIPTS or classify(path) is not FileClass.SOURCE:
            continue
        top = below.parts[0]
        if len(below.parts) == 1 or f"{PurePosixPath(root, top)}/__init__.py" in source.tree:
            units[top.removesuffix(".py")].append(path)
    name = source.name.lower().replace("-", "_").replace(".", "_")
    named = [unit for unit in units if unit.lower() == name]
    if not units:
        raise UsageError(f"{source.title} holds no Python package: take a package whose source is Python")
    return sorted(path for unit in named or units for path in units[unit])


async def find_stable_suite(
    provider: SandboxProvider, repository: Repository, suite: Suite
) -> tuple[Suite, SuiteReport]:
    """Run a package's tests three times without a bug; keep the fast tests with the same result each time.

    The first two runs fork a process that has imported pytest, and the third starts a new interpreter, as grading may do both.
    Slow tests are deselected, since every grading would run them. Raises UsageError if no test passes or the suite is slow.
    """
    timed = replace(suite, command=f"{suite.command} --durations=0")
    first = await run_suite(provider, [repository.layer], timed)
    if not first.passing and not first.timed_out:
        await _refuse_missing_packages(provider, repository, suite)
    _check_usable(first, repository, suite)
    deselected = "".join(f" --deselect {quote(test)}" for test in find_slow_tests(first.log))
    files, known = find_test_files(first.passing), frozenset(first.passing)
    suite = replace(suite, command=suite.command + deselected, files=files, known=known)
    second, third = await asyncio.gather(
        *(run_suite(provider, [repository.layer], suite, is_cold=is_cold) for is_cold in (False, True))
    )
    stable = {test for test in first.passing if first.status(test) == second.status(test) == third.status(test)}
    results = {test: result for test, result in second.results.items() if test in stable or test not in second.passing}
    before = replace(second, results=results)
    _check_usable(before, repository, suite)
    return replace(suite, timeout_s=3 * (second.duration_s + 1)), before


def find_slow_tests(log: str) -> list[str]:
    """Find the tests slower than SLOW_TEST_S in the log of `pytest --durations`."""
    return [test for duration, test in DURATION.findall(log) if float(duration) > SLOW_TEST_S]


async def _refuse_missing_packages(provider: SandboxProvider, repository: Repository, suite: Suite) -> None:
    """Raise UsageError if the tests fail to import packages; the message names these packages."""
    shown = replace(suite, command=f"{suite.command} --tb=short")
    log = (await run_suite(provider, [repository.layer], shown, is_cold=True)).log
    own = {part for path in repository.tree for part in PurePosixPath(path).with_suffix("").parts}
    if missing := sorted({name.partition(".")[0] for name in NO_MODULE.findall(log)} - own):
        these = "it" if len(missing) == 1 else "them"
        options = " ".join(f"--plugin {name}" for name in missing)
        wants = f"the tests of {repository.name} import {', '.join(missing)}, which sandboxes lack"
        raise UsageError(f"{wants}: install {these} on this machine and add {options} to the command")


def _check_usable(report: SuiteReport, repository: Repository, suite: Suite) -> None:
    if report.timed_out:
        limit = f"{suite.timeout_s:.0f} s"
        raise UsageError(f"the tests of {repository.name} take longer than {limit}: take a package with faster tests")
    if not report.passing:
        raise UsageError(f"no test of {repository.name} passes in the sandbox; the log ends: {report.last_line!r}")


async def drop_dependent_tests(prepared: PreparedPackage, provider: SandboxProvider) -> PreparedPackage:
    """Drop the tests whose result differs if their file runs alone, since later runs execute only some files.

    Raises UsageError if no test remains, SandboxError.
    """
    repository, before, results = prepared.repository, prepared.before, dict(prepared.before.results)
    for file in prepared.suite.files:
        alone = await run_suite(provider, [repository.layer], replace(prepared.suite, files=(file,)))
        for test in [test for test in results if test.startswith(f"{file}::")]:
            if alone.status(test) != before.status(test):
                del results[test]
    if not results:
        raise UsageError(f"no test of {repository.name} passes when its file runs alone: take another package")
    return replace(prepared, before=replace(before, results=results))


def find_bugs(prepared: PreparedPackage, families: Mapping[str, Mutator]) -> dict[str, list[Mutation]]:
    """Map each module to its possible mutations; skip files that are not Python in UTF-8."""
    found: dict[str, list[Mutation]] = {}
    for path in prepared.modules:
        with suppress(UnicodeDecodeError, cst.ParserSyntaxError):
            found[path] = find_mutations(prepared.repository.tree[path].content.decode(), families)
    return found
