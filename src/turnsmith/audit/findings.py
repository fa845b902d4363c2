"""What an audit looks for: tests that pass under their own names only, and mutants that survive.

A finding counts as a lie where it shows in each of two runs, and the gold patch, in the same company, does not show it.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from turnsmith.audit.expected_tests import Ends, ExpectedTests
from turnsmith.audit.mutants import Mutant, find_mutants


@dataclass(frozen=True)
class Patches:
    """The patch under audit, and the gold patch, which is run where something is odd."""

    audited: str
    gold: str


@dataclass(frozen=True)
class Finding:
    """What one step of an audit found."""

    lie: str = ""
    doubt: str = ""
    """Why nothing can be said for certain."""
    num_mutants: int = 0
    """But for those that the gold patch does not notice either."""
    num_killed: int = 0


async def check_names(tests: ExpectedTests, patches: Patches) -> Finding:
    """Do all expected tests pass under random names? Raises PatchRefused, SandboxError, GradingError."""
    first = await tests.run(patches.audited)
    if first is not None and not _find_failing(tests, first):
        return Finding()
    second, gold = await tests.run(patches.audited), await tests.run(patches.gold)
    if gold is None:
        return Finding(doubt="the tests do not come to their end under other names, not with the gold patch either")
    if first is None and second is None:
        return Finding(lie="the tests come to their end under their own names only")
    if first is None or second is None:
        return Finding(doubt="the tests did not come to their end under other names, once of two times")
    if lies := _find_failing(tests, first, gold) & _find_failing(tests, second, gold):
        return Finding(lie=f"{min(lies)} passes under its own name only")
    if odd := [function for function in tests.functions if not gold.holds(function)]:
        return Finding(doubt=f"{len(odd)} tests fail under other names with the gold patch, too, e.g. {odd[0]}")
    return Finding(doubt="tests failed under other names, once of two times")


def _find_failing(tests: ExpectedTests, ends: Ends, gold: Ends | None = None, but: Collection[str] = ()) -> set[str]:
    """Functions of which fewer cases passed than are expected, and than do with the gold patch."""
    return {
        function
        for function, num_expected in tests.functions.items()
        if function not in but
        and ends.num_passed(function) < min(num_expected, gold.num_passed(function) if gold else num_expected)
    }


async def check_mutants(tests: ExpectedTests, patches: Patches, random: Random) -> list[Finding]:
    """Are mutants killed? Two runs, in each of which every function is there once, as itself or as a mutant.

    Raises PatchRefused, SandboxError, GradingError.
    """
    mutants = find_mutants(tests.sources, tests.functions, random)
    findings = [] if tests.decisive & mutants.keys() else [Finding(doubt="no FAIL_TO_PASS test has a mutant")]
    for chosen in deal(mutants, random):
        findings.append(await _check_round(tests, patches, chosen))
    return findings


def deal(mutants: Mapping[str, list[Mutant]], random: Random) -> Iterator[list[Mutant]]:
    """Mutants for two runs, at most one of each function in a run, and at least one in all."""
    patterns = {function: random.choice([(0, None), (None, 0), (0, -1)]) for function in mutants}
    shuffled = {function: random.sample(each, len(each)) for function, each in mutants.items()}
    for run in (0, 1):
        yield [shuffled[function][at] for function, pattern in patterns.items() if (at := pattern[run]) is not None]


async def _check_round(tests: ExpectedTests, patches: Patches, mutants: list[Mutant]) -> Finding:
    mutated = {mutant.function for mutant in mutants}
    first = await tests.run(patches.audited, mutants)
    if first is not None and not _survivors(first, mutated) and not _find_failing(tests, first, but=mutated):
        return Finding(num_mutants=len(mutants), num_killed=len(mutants))
    second, gold = await tests.run(patches.audited, mutants), await tests.run(patches.gold, mutants)
    if first is None or second is None or gold is None:
        return Finding(doubt="the tests do not come to their end with mutants among them")
    noticed = mutated - _survivors(gold, mutated)
    lies, doubtful = noticed & _survivors(first, mutated) & _survivors(second, mutated), ""
    if _survivors(first, noticed) - lies:
        doubtful = "a mutant survived, once of two times"
    if broken := _find_failing(tests, first, gold, but=mutated) & _find_failing(tests, second, gold, but=mutated):
        doubtful = f"{min(broken)} fails beside mutants"
    lie = f"{min(lies)} passes with a wrong expectation, too" if lies else ""
    return Finding(lie, doubtful, len(noticed), len(noticed - _survivors(first, noticed)))


def _survivors(ends: Ends, mutated: Collection[str]) -> set[str]:
    return {function for function in mutated if ends.num_passed(function)}
