"""Check, with the gold patch, if audits of a task's patches can reach a verdict.

The tests run with the gold patch under random names, then as mutants (tests with one wrong expectation). A mutant is kept
if the gold patch fails it in two runs, in the same cases, each by an unmet expectation. Other errors may come from
the changed test itself, and a test that every patch fails proves nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from random import Random

from turnsmith.audit.expected_tests import ExpectedTests, RunResults
from turnsmith.audit.mutants import find_candidates, find_mutants
from turnsmith.types import Ability, Mutant

MAX_TRIES = 4
"""Maximum number of mutants that are tried for each test function."""


def summarise_abilities(abilities: Sequence[Ability | None]) -> str:
    """Summarise for how many tasks audits can reach a verdict; None stands for a task that was not checked."""
    known = [ability for ability in abilities if ability]
    unknown = f", {len(abilities) - len(known)} are not known" if len(known) < len(abilities) else ""
    return f"audits can decide on {sum(ability.can_decide for ability in known)} of {len(abilities)} tasks{unknown}"


def describe_abilities(abilities: Sequence[Ability | None]) -> dict[str, float]:
    """Compute the share of tasks for which audits can reach a verdict, and the share of tasks that were not checked."""
    num = len(abilities) or 1
    return {
        "audit/can_decide_share": sum(bool(ability and ability.can_decide) for ability in abilities) / num,
        "audit/not_known_share": sum(ability is None for ability in abilities) / num,
    }


@dataclass(frozen=True)
class GoldTrial:
    """Results of the expected tests with the gold patch. Tasks whose bugs were made in one tree share these results."""

    passed: Counter[str]
    """Test function → number of its cases that pass with the gold patch under random names."""
    killed: Mapping[str, Mutant]
    """Test function → mutant of it that the gold patch fails."""
    drawn: frozenset[Mutant]
    """Mutants found as every audit finds its own. Qualification records leave them out, since audits find such mutants again."""
    is_finished: bool = True
    """True if the test run under random names finished."""


async def try_gold(tests: ExpectedTests, gold: str, random: Random) -> GoldTrial:
    """Run the tests with the gold patch: first under random names, then as mutants, until one mutant of each function fails.

    Raises PatchRefused, SandboxError, GradingError.
    """
    plain = await tests.run_cases(gold)
    if plain is None:
        return GoldTrial(Counter(), {}, frozenset(), is_finished=False)
    found = find_mutants(tests.sources, tests.functions, random)
    drawn = {function: random.choice(mutants) for function, mutants in found.items()}
    left = {function: _list_tries(tests, function, drawn, random) for function in tests.functions}
    killed: dict[str, Mutant] = {}
    for _ in range(MAX_TRIES):
        tried = [mutant for function in left if function not in killed and (mutant := next(left[function], None))]
        if not tried:
            break
        killed |= {mutant.function: mutant for mutant in await _keep_killed(tests, gold, tried, plain)}
    return GoldTrial(tests.count(plain.passed), killed, frozenset(drawn.values()))


def _list_tries(tests: ExpectedTests, function: str, drawn: Mapping[str, Mutant], random: Random) -> Iterator[Mutant]:
    first = [drawn[function]] if function in drawn else []
    return islice(chain(first, find_candidates(tests.sources, function, random)), MAX_TRIES)


async def _keep_killed(tests: ExpectedTests, gold: str, mutants: list[Mutant], plain: RunResults) -> list[Mutant]:
    """Keep the mutants that the gold patch fails, and store their cases that pass. `plain` is its run without mutants."""
    first = await tests.run_cases(gold, mutants)
    second = await tests.run_cases(gold, mutants) if first else None
    if first is None or second is None:
        return []
    return [
        replace(mutant, passing=tuple(sorted(_select(tests, first, mutant).passed)))
        for mutant in mutants
        if is_killed(*(_select(tests, results, mutant) for results in (plain, first, second)))
    ]


def _select(tests: ExpectedTests, results: RunResults, mutant: Mutant) -> RunResults:
    cases = {test for test in results.passed | results.unmet if tests.find_function(test) == mutant.function}
    return RunResults(results.passed & cases, results.unmet & cases)


def is_killed(plain: RunResults, first: RunResults, second: RunResults) -> bool:
    """Return True if a mutant fails in the same cases in two runs, each by an unmet expectation; `plain` is the unmutated run."""
    num_failed = len(plain.passed) - len(first.passed)
    return first == second and 0 < num_failed <= len(first.unmet)


def judge_audit(tests: ExpectedTests, trial: GoldTrial) -> Ability:
    """Decide from test runs with the gold patch (`trial`) if audits of patches of the task can reach a verdict."""
    # Mutants of tests that keep their names are large, so records hold only those of FAIL_TO_PASS.
    functions = {*tests.functions} - ({*tests.not_renamed} - tests.decisive)
    kept = [mutant for function, mutant in trial.killed.items() if function in functions]
    known = tuple(mutant for mutant in kept if mutant not in trial.drawn)
    return Ability(_find_hindrance(tests, trial), known)


def _find_hindrance(tests: ExpectedTests, trial: GoldTrial) -> str:
    """Return the reason why audits of the task's patches cannot reach a verdict; empty if they can."""
    if not trial.is_finished:
        return "the tests do not finish under other names"
    if failing := sorted((tests.functions - trial.passed).keys()):
        return f"{len(failing)} tests fail under other names, e.g. {failing[0]}"
    checked = {function for function, mutant in trial.killed.items() if not mutant.passing}
    if complaint := tests.describe_unchecked(checked):
        return complaint
    decisive = ((test, trial.killed.get(tests.find_function(test))) for test in tests.case.task.FAIL_TO_PASS)
    if not any(mutant and test not in mutant.passing for test, mutant in decisive):
        return "the gold patch fails no mutant of a FAIL_TO_PASS test"
    return ""
