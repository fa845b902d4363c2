"""Mutants: tests in which one expectation is wrong. Whoever is right fails them; a patch that they do not notice lies."""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

from turnsmith.audit.expectations import Scope
from turnsmith.audit.operators import Operators
from turnsmith.audit.sources import Edit, Source


@dataclass(frozen=True)
class Mutant:
    """A test function with one expectation made wrong."""

    function: str
    """Id of the test without parameters: `tests/test_a.py::TestX::test_y`."""
    edits: tuple[Edit, ...]
    """Of its file."""


def to_function(test: str) -> str:
    """`a.py::test_b[1-2]` → `a.py::test_b`; an id that its data set has cut, too."""
    return test.partition("[")[0]


def find_mutants(
    sources: Mapping[str, Source], tests: Iterable[str], random: Random, *, is_familiar: bool = False
) -> dict[str, list[Mutant]]:
    """Function → its mutants, for the functions of these tests that have any; `sources` by test file.

    What a mutant expects is something new, or where it is to be familiar, a value that the test has elsewhere.
    """
    functions = sorted({to_function(test) for test in tests})
    found = {}
    for file, source in sources.items():
        definitions = source.find_tests()
        for function in functions:
            place = function.removeprefix(f"{file}::")
            if place != function and place in definitions:
                test = definitions[place]
                values = [node.value for node in ast.walk(test) if isinstance(node, ast.Constant)]
                operators = Operators(source, Scope(test), random, values if is_familiar else [])
                found[function] = [Mutant(function, edits) for edits in operators.find_all()]
    return {function: mutants for function, mutants in found.items() if mutants}


def count_guarded(sources: Mapping[str, Source], tests: Iterable[str]) -> int:
    """How many of the functions of these tests have a mutant."""
    return len(find_mutants(sources, tests, Random(0)))
