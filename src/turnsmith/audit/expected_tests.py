"""Expected tests of a task, and runs of these tests under random names, with some tests as mutants."""

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from turnsmith.audit.mutants import to_function
from turnsmith.audit.renaming import draw_renaming, find_definition
from turnsmith.audit.sources import Source, read_source
from turnsmith.errors import GradingError
from turnsmith.grading.cases import Case, prepare, run_tests
from turnsmith.grading.testing import CLEAN_STATUSES, find_test_files
from turnsmith.sandboxes.base import SandboxSpec, started
from turnsmith.types import Mutant
from turnsmith.types.edits import replace_spans

UNMET = re.compile(r"AssertionError\b|assert\b|Failed\b")
"""Pattern of the message of an unmet expectation; any other error may come from the test's own code."""


class UnreadableTests(GradingError):
    """Error raised if a test file of the task cannot be read or parsed."""


@dataclass(frozen=True)
class RunResults:
    """Results of the expected tests in one run. Tests have the ids of the task, not the random names of the run."""

    passed: frozenset[str]
    unmet: frozenset[str]
    """Ids of tests that failed because an expectation was not met."""


@dataclass(frozen=True)
class ExpectedTests:
    """Expected tests of a task, with the sources of their files."""

    case: Case
    sources: Mapping[str, Source]

    @cached_property
    def definitions(self) -> dict[str, str]:
        """Map each test function to its definition, e.g. in a base class: `b.py::TestB::test_y` → `a.py::TestA::test_y`."""
        functions = dict.fromkeys(map(to_function, self.case.expected))
        return {function: find_definition(self.sources, function) for function in functions}

    @cached_property
    def functions(self) -> Counter[str]:
        """Map each function that defines expected tests to the number of its cases that must pass once the bug is fixed."""
        others = self.case.task.meta.get(CLEAN_STATUSES, {})
        return self.count(test for test in self.case.expected if test not in others)

    @cached_property
    def decisive(self) -> set[str]:
        """Return the functions that define the FAIL_TO_PASS tests."""
        return {*self.count(self.case.task.FAIL_TO_PASS)}

    @cached_property
    def not_renamed(self) -> list[str]:
        """List the test functions that cannot be renamed, since no file defines them; those of FAIL_TO_PASS first."""
        renaming = draw_renaming(self.sources, self.definitions)
        return [function for function in self.definitions if not renaming.is_renamed(function)]

    def describe_unchecked(self, checked: Collection[str]) -> str:
        """Describe the FAIL_TO_PASS functions that could not be renamed and are not in `checked`; empty if there are none.

        Code that knows a test's name can forge its result. Mutants of functions in `checked` failed, so their results are real.
        """
        decisive = {*map(to_function, self.case.task.FAIL_TO_PASS)}
        not_renamed = [function for function in self.not_renamed if function in decisive]
        found = [function for function in not_renamed if self.definitions[function] not in checked]
        return f"{len(found)} FAIL_TO_PASS tests keep their names and have no mutant, e.g. {found[0]}" if found else ""

    @property
    def num_renamed(self) -> int:
        return len(self.definitions) - len(self.not_renamed)

    async def run(self, patch: str, mutants: Collection[Mutant] = ()) -> Counter[str] | None:
        """Run the tests as `run_cases` does, and count the passed cases of each function; None if pytest did not finish."""
        results = await self.run_cases(patch, mutants)
        return self.count(results.passed) if results else None

    async def run_cases(self, patch: str, mutants: Collection[Mutant] = ()) -> RunResults | None:
        """Run the test files under new random names, with mutants in place of some tests; None if pytest did not finish.

        Raises PatchRefused, SandboxError, GradingError.
        """
        renaming = draw_renaming(self.sources, self.definitions)
        edits = {
            file: [edit for each in mutants if each.function.startswith(f"{file}::") for edit in each.edits]
            for file in self.sources
        }
        texts = {file: replace_spans(source.text, edits[file]) for file, source in self.sources.items()}
        report = await run_tests(self.case, patch, tuple(renaming.files.values()), renaming.write(texts))
        if not report.sealed or not report.sealed.is_finished:
            return None
        old_names = {renaming.rename(function): function for function in self.definitions}
        known = {test: to_function(test) for test in report.sealed.statuses if to_function(test) in old_names}
        cases = {test: old_names[function] + test.removeprefix(function) for test, function in known.items()}
        unmet = {test for test, result in report.results.items() if UNMET.match(result.message)}
        return RunResults(
            passed=frozenset(case for test, case in cases.items() if report.sealed.statuses[test] == "passed"),
            unmet=frozenset(case for test, case in cases.items() if test in unmet),
        )

    def find_function(self, test: str) -> str:
        """Return the id of the function that defines a test; for an inherited test, the id of the base class's method."""
        return self.definitions[to_function(test)]

    def count(self, tests: Iterable[str]) -> Counter[str]:
        """Count test ids by the function that defines the test."""
        return Counter(map(self.find_function, tests))


async def read_tests(case: Case) -> ExpectedTests:
    """Read the test files of a task in a separate sandbox. Raises SandboxError, GradingError, UnreadableTests."""
    try:
        async with started(case.provider, SandboxSpec.of(case.tree)) as sandbox:
            await prepare(sandbox, case, patch="", added={})
            contents = {file: await sandbox.read(file) for file in find_test_files(case.expected)}
    except OSError as error:
        raise UnreadableTests(f"a test file of {case.task.instance_id} cannot be read: {error}") from None
    return ExpectedTests(case, {file: await asyncio.to_thread(_parse, file, contents[file]) for file in contents})


@lru_cache(maxsize=64)
def _parse(file: str, content: bytes) -> Source:
    """Parse a test file, cached since bugs made in one tree share their tests. Raises UnreadableTests."""
    try:
        source = read_source(content)
        _ = source.tests
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnreadableTests(f"{file} cannot be parsed: {error}") from None
    return source
