"""Mutants: tests with one wrong expectation. An honest patch fails them; a patch that passes them tampers with the tests.

`find_mutants` changes only code that every run reaches: nothing in branches, in callbacks, or in blocks that catch failures.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from random import Random

from turnsmith.audit.expectations import Scope, find_assertions, walk_assertions
from turnsmith.audit.generated_tests import change_comparison
from turnsmith.audit.literals import (
    ANOTHER,
    change,
    find_outermost,
    is_literal,
    is_number,
    is_text_or_number,
    lengthen,
    push,
    spread,
)
from turnsmith.audit.sources import Source
from turnsmith.types import Edit, Mutant

Edits = tuple[Edit, ...]

_EQUAL = re.compile(
    r"assert(Equals?|CountEqual|(List|Tuple|Set|Dict|Sequence|MultiLine)Equal)"
    r"|assert_(array_|frame_|series_|index_|list_|dict_)?equals?"
)
_CLOSE = re.compile(r"assertAlmostEquals?|assert_(array_)?almost_equal|assert_allclose")
_CALLED = re.compile(r"assert_(called|awaited)\w*with")
"""Pattern of methods that compare the arguments of a mock's call; mutants change an expected argument."""
_ORDER = {"assertGreater": ast.Gt, "assertGreaterEqual": ast.GtE, "assertLess": ast.Lt, "assertLessEqual": ast.LtE}
_RAISES = {"raises", "assertRaises", "assertRaisesRegex"}
_RARE = ("BufferError", "FloatingPointError", "ReferenceError")
"""Names of exceptions that hardly any code raises, for mutants of `raises`."""
_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertNotEqual": "assertEqual",
}
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}


def to_function(test: str) -> str:
    """Remove the parameters from a test id, even if the id was cut: `a.py::test_b[1-2]` → `a.py::test_b`."""
    return test.partition("[")[0]


def find_mutants(sources: Mapping[str, Source], tests: Iterable[str], random: Random) -> dict[str, list[Mutant]]:
    """Return test function → its mutants, for the functions of some tests; `sources` maps paths to test files."""
    found = {}
    for function in sorted({to_function(test) for test in tests}):
        file, _, name = function.partition("::")
        test = sources[file].tests.get(name) if file in sources else None
        if test and (mutations := [*Operators(sources[file], Scope(test), random).find_all()]):
            found[function] = [Mutant(function, edits) for edits in mutations]
    return found


def find_candidates(sources: Mapping[str, Source], function: str, random: Random) -> Iterator[Mutant]:
    """Yield possible mutants of a test function; each counts only if the gold patch fails it.

    First come mutants of expectations in any branch, the last one first, then of columns of `parametrize`, then of other
    literals. A method that no file defines has one mutant, which changes its first comparison.
    """
    file, _, name = function.partition("::")
    source = sources.get(file)
    if source and (test := source.tests.get(name)):
        operators = Operators(source, Scope(test), random)
        expectations = reversed([*operators.find_all(everywhere=True)])
        yield from (Mutant(function, edits) for edits in chain(expectations, operators.find_in_literals()))
    elif source:
        yield from (Mutant(function, (edit,)) for edit in change_comparison(source, name))


@dataclass(frozen=True)
class Operators:
    """Mutation operators that make one expectation of a test wrong, so that correct code fails."""

    source: Source
    scope: Scope
    random: Random

    def find_all(self, *, everywhere: bool = False) -> Iterator[Edits]:
        """Yield the edits of each mutant in order; with `everywhere`, also in code that some runs skip."""
        test = self.scope.test
        for node in walk_assertions(test) if everywhere else find_assertions(test.body):
            match node:
                case ast.Assert(test=condition):
                    yield from self._of_condition(condition)
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                    yield from self._of_call(node, name)

    def find_in_literals(self) -> Iterator[Edits]:
        """Yield edits of each column of `parametrize`, then of each literal in the test from last to first."""
        for values in self.scope.columns.values():
            if all(map(is_literal, values)):
                yield tuple(map(self._change, values))
        for literal in reversed([*find_outermost(self.scope.test.body)]):
            yield (self._change(literal),)

    def _of_condition(self, condition: ast.expr) -> Iterator[Edits]:
        if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
            for part in condition.values:
                yield from self._of_condition(part)
            return
        found = [*self._of_comparison(condition)] if isinstance(condition, ast.Compare) else []
        yield from found or [self.source.enclose(condition, "(not (", "))")]

    def _of_comparison(self, comparison: ast.Compare) -> Iterator[Edits]:
        sides = [comparison.left, *comparison.comparators]
        for left, operator, right in zip(sides, comparison.ops, comparison.comparators, strict=False):
            match operator:
                case ast.Eq():
                    yield from self._of_equality(left, right)
                case ast.Is() if is_literal(right):
                    yield (self._change(right),)
                case ast.In() if is_text_or_number(left):
                    yield (lengthen(self.source, left, self.random),)
                case ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE():
                    yield from self._of_order(type(operator), left, right)

    def _of_equality(self, left: ast.expr, right: ast.expr) -> Iterator[Edits]:
        """Yield edits that make `left == right` wrong: change the expected literal or, without one, apply ANOTHER."""
        for side in (left, right):
            if approximate := _find_approximate(side):
                yield (spread(self.source, approximate, self.random),)
                return
        literals = [found for side in (left, right) if (found := self.scope.find_literals(side))]
        if literals:
            yield tuple(map(self._change, literals[-1]))
        else:
            yield self.source.enclose(self._find_expected(left, right), f"({ANOTHER})(", ")")

    def _find_expected(self, left: ast.expr, right: ast.expr) -> ast.expr:
        """Return the likely expected value of two: that with fewer imported names or, if equally many, without a call."""
        sides = (right, left) if isinstance(left, ast.Call) or not isinstance(right, ast.Call) else (left, right)
        imported = self.source.imported
        return min(sides, key=lambda side: sum(getattr(node, "id", "") in imported for node in ast.walk(side)))

    def _of_order(self, operator: type[ast.cmpop], left: ast.expr, right: ast.expr) -> Iterator[Edits]:
        """Yield edits that make `left < right` and similar comparisons wrong: move the bound past the compared value."""
        is_above = operator in (ast.Gt, ast.GtE)
        for side in (left, right):
            if is_number(side):
                yield (push(self.source, side, self.random, is_up=is_above is (side is right)),)

    def _of_call(self, call: ast.Call, name: str) -> Iterator[Edits]:
        match call.args:
            case [*arguments] if any(isinstance(one, ast.Starred) for one in arguments):
                return
            case [first, second, *_] if _EQUAL.fullmatch(name):
                yield from self._of_equality(first, second)
            case [first, second, *_] if _CLOSE.fullmatch(name):
                yield from ((spread(self.source, side, self.random),) for side in (first, second) if is_literal(side))
            case [first, second, *_] if name in _ORDER:
                yield from self._of_order(_ORDER[name], first, second)
            case [first, _, *_] if name == "assertIn" and is_text_or_number(first):
                yield (lengthen(self.source, first, self.random),)
            case [first, *_] if name in _RAISES:
                yield (self.source.replace(first, self.random.choice(_RARE)),)
            case [*arguments] if _CALLED.fullmatch(name):
                yield from ((self._change(one),) for one in arguments if is_literal(one))
            case [_, *_] if name in _OPPOSITES and isinstance(call.func, ast.Attribute):
                end = self.source.span(call.func)[1]
                yield (Edit(end - len(name), end, _OPPOSITES[name]),)

    def _change(self, literal: ast.expr) -> Edit:
        return change(self.source, literal, self.random, self.scope.constants)


def _find_approximate(side: ast.expr) -> ast.expr | None:
    match side:
        case ast.Call(func=ast.Attribute(attr="approx") | ast.Name(id="approx"), args=[literal, *_]):
            return literal if is_literal(literal) else None
    return None
