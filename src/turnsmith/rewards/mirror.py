"""The expected tests under other names, each with twins whose expectation is bent: the tests must pass, the twins must not.

Code that knows a test by its name or its place, and forges its report, does not know these. Code that passes without the right
answer, by an object that equals everything or by a look into the test, passes the twin as well. What is left to it is to tell a
test from its twin, and for that it must know the answer.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import cycle, islice

from turnsmith.rewards.chance import CHANCE, sample
from turnsmith.rewards.doubles import Double, double_tests

MAX_TESTS, MAX_OTHERS = 12, 4
"""Test functions of one task that are mirrored: of those that must come to pass, and of the others, chosen at random."""
NUM_SIDES = {1: 14, 2: 7, 3: 5, 4: 5}
MIN_SIDES = 3
"""Runs in which the versions of tests are shared out, by the number of functions that must come to pass: so many that code which
guesses anew in each run, or at each test, which version it meets is right less than once in a thousand times."""


@dataclass(frozen=True)
class Reflected:
    """One test of a mirror, whatever its name."""

    file: str
    """The file of the expected test that it was made of."""
    double: Double
    parameters: str
    """E.g. `[1-2]`; empty where it has none."""

    @property
    def original(self) -> str:
        """Id of the expected test, but for its parameters."""
        return f"{self.file}::{self.double.original}"

    def is_as_it_must(self, status: str) -> bool:
        """Does it end as for whoever is right? A twin is skipped where there is no value that could be bent."""
        return self.is_evidence(status) or (self.double.is_twin and status == "skipped")

    def is_evidence(self, status: str) -> bool:
        """If the gold patch ends so, can another end tell anything?"""
        return status in ("failed", "error") if self.double.is_twin else status == "passed"


Ends = dict[Reflected, str]
"""How each test of one run ended."""


@dataclass(frozen=True)
class Mirror:
    """The doubles of a task, with placeholders for names."""

    texts: dict[str, str]
    """File of expected tests → its text with all doubles."""
    tests: frozenset[Reflected]
    """What is run."""

    def keep_sound(self, runs: Iterable[Ends]) -> "Mirror":
        """Of runs with the gold patch keep what ended as it must, and twins only of what passed: the rest shows nothing."""
        ends = [end for run in runs for end in run.items()]
        sound = {test for test, _ in ends} - {test for test, status in ends if not test.is_evidence(status)}
        passed = {(test.original, test.parameters) for test in sound if not test.double.is_twin}
        return replace(self, tests=frozenset(test for test in sound if (test.original, test.parameters) in passed))

    def share_out(self, must: Iterable[str]) -> "list[Mirror]":
        """Mirrors for a verdict on tests of which these must come to pass, drawn anew each time.

        In each there is every function once, by chance as itself or as one of its twins. So nobody can compare the versions, and
        which of them there are tells nothing.
        """
        num_sides = NUM_SIDES.get(len(self.find_guarded(must)), MIN_SIDES)
        return self._deal(num_sides if self.twins else min(len(self.tests), 1), _draw_versions)

    def spread_out(self) -> "list[Mirror]":
        """As few mirrors as hold all versions of every function, each of them as in a verdict."""
        counts = Counter(original for original, _ in {(test.original, test.double) for test in self.tests})
        return self._deal(max(counts.values(), default=0), _repeat_versions)

    def find_guarded(self, tests: Iterable[str]) -> set[str]:
        """Of the functions of these tests, those that have twins."""
        return {test.partition("[")[0] for test in tests} & {test.original for test in self.twins}

    @property
    def _versions(self) -> dict[str, list[Double]]:
        """Function → itself, then its twins as they are written."""
        found = defaultdict(set)
        for test in self.tests:
            found[test.original].add(test.double)
        return {original: sorted(doubles, key=_order) for original, doubles in found.items()}

    @property
    def twins(self) -> list[Reflected]:
        return [test for test in self.tests if test.double.is_twin]

    def _deal(self, num_sides: int, draw: "Callable[[list[Double], int], Iterable[Double]]") -> "list[Mirror]":
        """Sides that have of each function the version drawn for them."""
        sides: list[set[Reflected]] = [set() for _ in range(num_sides)]
        for original, versions in self._versions.items():
            mine = [test for test in self.tests if test.original == original]
            for side, double in zip(sides, draw(versions, num_sides), strict=True):
                side |= {test for test in mine if test.double == double}
        return [replace(self, tests=frozenset(side)) for side in sides]


NO_MIRROR = Mirror({}, frozenset())
"""Nothing to look into: a verdict rests on the expected tests alone, and its evidence says so."""


def _draw_versions(doubles: list[Double], num_sides: int) -> list[Double]:
    """About as often the test itself as one of its twins, each time another where there are enough, in any order."""
    itself, twins = doubles[:1], CHANCE.sample(doubles[1:], len(doubles) - 1)
    num_twins = CHANCE.choice((num_sides // 2, (num_sides + 1) // 2)) if twins else 0
    versions = [*islice(cycle(twins), num_twins), *islice(cycle(itself), num_sides - num_twins)]
    return CHANCE.sample(versions, num_sides)


def _repeat_versions(doubles: list[Double], num_sides: int) -> Iterable[Double]:
    return islice(cycle(doubles), num_sides)


def _order(double: Double) -> tuple[bool, str]:
    """The test itself first, then as they are written."""
    return double.is_twin, double.name


def choose_tests(first: Iterable[str], then: Iterable[str]) -> list[str]:
    """The ids of tests to mirror: of some functions, all that are expected."""
    must, others = _by_function(first), _by_function(then)
    functions = [*sample([*must], MAX_TESTS), *sample([*(others.keys() - must.keys())], MAX_OTHERS)]
    return [test for function in functions for test in must.get(function) or others[function]]


def _by_function(tests: Iterable[str]) -> dict[str, list[str]]:
    functions = defaultdict(list)
    for test in tests:
        functions[test.partition("[")[0]].append(test)
    return functions


def make_mirror(sources: Mapping[str, str], tests: Collection[str]) -> Mirror:
    """Double these tests in the sources of their files."""
    texts, reflected = {}, set()
    for file, source in sources.items():
        places = [test.removeprefix(f"{file}::") for test in tests if test.startswith(f"{file}::")]
        text, doubles = double_tests(source, _parameters_by_place(places))
        if doubles:
            texts[file] = text
            reflected |= {Reflected(file, double, one) for double in doubles for one in double.parameters}
    return Mirror(texts, frozenset(reflected))


def _parameters_by_place(places: Iterable[str]) -> dict[str, list[str]]:
    """`["test_a[1]", "T::test_b"]` → `{"test_a": ["[1]"], "T::test_b": [""]}`."""
    parameters = defaultdict(list)
    for place in places:
        name, bracket, rest = place.partition("[")
        parameters[name].append(bracket + rest)
    return parameters
