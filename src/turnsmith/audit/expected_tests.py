"""The expected tests of a task, and one run of them under random names, some of them as mutants."""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from turnsmith.audit.mutants import Mutant, to_function
from turnsmith.audit.sources import Edit, Source, apply_edits, draw_renaming, read_source
from turnsmith.errors import GradingError
from turnsmith.rewards.cases import Case, prepare, run_tests
from turnsmith.rewards.testing import CLEAN_STATUSES, find_test_files
from turnsmith.sandboxes.base import SandboxSpec, started


@dataclass(frozen=True)
class ExpectedTests:
    """A task with the sources of its test files, as they are when the tests run."""

    case: Case
    sources: Mapping[str, Source]

    @cached_property
    def functions(self) -> Counter[str]:
        """Function → how many of its cases are expected to pass; what is skipped on the clean tree, too, can tell nothing."""
        elsewise = self.case.task.meta.get(CLEAN_STATUSES, {})
        return Counter(to_function(test) for test in self.case.expected if test not in elsewise)

    @cached_property
    def decisive(self) -> set[str]:
        """Functions of FAIL_TO_PASS."""
        return set(map(to_function, self.case.task.FAIL_TO_PASS))

    def find_nameless(self) -> list[str]:
        """Functions that keep their names, since their files do not define them."""
        renaming = draw_renaming(self.sources, self.functions)
        return [function for function in self.functions if not renaming.is_renamed(function)]

    async def run(self, patch: str, mutants: Collection[Mutant] = ()) -> Counter[str] | None:
        """Run the whole files under names that are new each time, with mutants in the place of some tests.

        How many cases of each function passed, by its old name; None where pytest did not come to its end.
        Raises PatchRefused, SandboxError, GradingError.
        """
        renaming = draw_renaming(self.sources, self.functions)
        texts = {file: apply_edits(source.text, _edits_of(file, mutants)) for file, source in self.sources.items()}
        report = await run_tests(self.case, patch, tuple(renaming.files.values()), renaming.write(texts))
        if not report.sealed or not report.sealed.is_finished:
            return None
        old_names = {renaming.rename(function): function for function in self.functions}
        passed = [to_function(test) for test, status in report.sealed.statuses.items() if status == "passed"]
        return Counter(old_names[function] for function in passed if function in old_names)


def _edits_of(file: str, mutants: Collection[Mutant]) -> list[Edit]:
    return [edit for mutant in mutants if mutant.function.startswith(f"{file}::") for edit in mutant.edits]


async def read_tests(case: Case) -> ExpectedTests:
    """Read the test files of a task in a sandbox of its own. Raises SandboxError, and GradingError where one cannot be read."""
    spec = SandboxSpec.of(case.task, case.layers)
    try:
        async with started(case.provider, spec) as sandbox:
            await prepare(sandbox, case, patch="", added={})
            contents = {file: await sandbox.read(file) for file in find_test_files(case.expected)}
    except OSError as error:
        raise GradingError(f"a test file of {case.task.instance_id} cannot be read: {error}") from None
    return ExpectedTests(case, {file: await asyncio.to_thread(_parse, file, contents[file]) for file in contents})


@lru_cache(maxsize=64)
def _parse(file: str, content: bytes) -> Source:
    """Bugs of one tree have their test files in common. Raises GradingError."""
    try:
        source = read_source(content)
        _ = source.tests
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise GradingError(f"{file} cannot be parsed: {error}") from None
    return source
