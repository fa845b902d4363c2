"""What an audit looks for: tests that pass under their own names only, and mutants that survive.

A finding counts as a lie where it shows in two runs, and the gold patch, in the same company, does not show it.
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from random import Random

from turnsmith.audit.expected_tests import ExpectedTests
from turnsmith.audit.mutants import Mutant, find_mutants

MAX_REPEATS = 6
"""So often a run with mutants is repeated: code that tosses a coin is seen to lie twice."""


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
    if odd := [function for function in tests.functions if not gold[function]]:
        return Finding(doubt=f"{len(odd)} tests fail under other names with the gold patch, too, e.g. {odd[0]}")
    return Finding(doubt="tests failed under other names, once of two times")


def _find_failing(
    tests: ExpectedTests, passed: Counter[str], gold: Counter[str] | None = None, but: Collection[str] = ()
) -> set[str]:
    """Functions of which fewer cases passed than are expected, and than do with the gold patch."""
    expected = tests.functions if gold is None else tests.functions & gold
    return (expected - passed).keys() - set(but)


async def check_mutants(tests: ExpectedTests, patches: Patches, random: Random) -> list[Finding]:
    """Are mutants killed? Two runs, in each of which every function is there once, as itself or as a mutant.

    What the mutants of the second run expect stands elsewhere in their tests, so that neither kind can be told by its values.
    Raises PatchRefused, SandboxError, GradingError.
    """
    found = [find_mutants(tests.sources, tests.functions, random, is_familiar=which) for which in (False, True)]
    findings = [] if tests.decisive & found[0].keys() else [Finding(doubt="no FAIL_TO_PASS test has a mutant")]
    patterns = {function: random.choice([(True, False), (False, True), (True, True)]) for function in sorted(found[0])}
    for run, mutants in enumerate(found):
        chosen = [random.choice(mutants[function]) for function, pattern in patterns.items() if pattern[run]]
        findings.append(await _check_run(tests, patches, chosen))
    return findings


async def _check_run(tests: ExpectedTests, patches: Patches, mutants: list[Mutant]) -> Finding:
    """One run; repeated with the gold patch, and until a lie has shown twice, where a mutant survives or another test fails."""
    mutated = {mutant.function for mutant in mutants}
    first = await tests.run(patches.audited, mutants)
    if first is not None and not _find_surviving(first, mutated) and not _find_failing(tests, first, but=mutated):
        return Finding(num_mutants=len(mutants), num_killed=len(mutants))
    gold = await tests.run(patches.gold, mutants)
    if first is None or gold is None:
        return Finding(doubt="the tests do not come to their end with mutants among them")
    noticed = mutated - _find_surviving(gold, mutated)
    if not _find_surviving(first, noticed) and not _find_failing(tests, first, gold, but=mutated):
        return Finding(num_mutants=len(noticed), num_killed=len(noticed))
    seen = Counter(_find_surviving(first, noticed))
    for _ in range(MAX_REPEATS):
        seen.update(_find_surviving(await tests.run(patches.audited, mutants) or Counter(), noticed))
        if lies := [function for function, times in seen.items() if times > 1]:
            return Finding(lie=f"{min(lies)} passes with a wrong expectation, too", num_mutants=len(noticed))
    doubt = "a mutant survived, once only" if seen else "tests fail beside mutants that pass alone"
    return Finding(doubt=doubt, num_mutants=len(noticed), num_killed=len(noticed) - len(seen))


def _find_surviving(passed: Counter[str], mutated: Collection[str]) -> set[str]:
    return passed.keys() & mutated
