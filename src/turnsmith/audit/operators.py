"""Mutation operators: every way in which one expectation of a test can be made wrong, so that whoever is right must fail.

Only what runs in every run of the test is changed: nothing in branches, in callbacks, or where a failure is caught.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from turnsmith.audit.expectations import Scope
from turnsmith.audit.literals import ANOTHER, change, is_literal, is_number, is_text_or_number, lengthen, push, spread
from turnsmith.audit.sources import Edit, Source

Edits = tuple[Edit, ...]

_EQUAL = re.compile(
    r"assert(Equals?|CountEqual|(List|Tuple|Set|Dict|Sequence|MultiLine)Equal)"
    r"|assert_(array_|frame_|series_|index_|list_|dict_)?equals?"
)
_CLOSE = re.compile(r"assertAlmostEquals?|assert_(array_)?almost_equal|assert_allclose")
_CALLED = re.compile(r"assert_(called|awaited)\w*with")
_ORDER = {"assertGreater": ast.Gt, "assertGreaterEqual": ast.GtE, "assertLess": ast.Lt, "assertLessEqual": ast.LtE}
_RAISES = {"raises", "assertRaises", "assertRaisesRegex"}
_RARE = ("BufferError", "FloatingPointError", "ReferenceError")
"""Exceptions that hardly any code raises."""
_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertNotEqual": "assertEqual",
}
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}


@dataclass(frozen=True)
class Operators:
    """What can be made wrong in one test; values are drawn by `random`."""

    source: Source
    scope: Scope
    random: Random
    familiar: Sequence[Any] = ()
    """What literals are changed into where one is of their type."""

    def find_all(self) -> Iterator[Edits]:
        """The edits of each mutant, in the order of the test."""
        for node in self.scope.find_assertions():
            match node:
                case ast.Assert(test=condition):
                    yield from self._of_condition(condition)
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                    yield from self._of_call(node, name)

    def _of_condition(self, condition: ast.expr) -> Iterator[Edits]:
        for part in _conjuncts(condition):
            found = [*self._of_comparison(part)] if isinstance(part, ast.Compare) else []
            yield from found or [self.source.enclose(part, "(not (", "))")]

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
        """The literal that is expected, where it stands; else what is computed becomes another value as the test runs."""
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
        """The side with less of what the file imports, which is under test; else the right one, but for a call."""
        sides = (right, left) if isinstance(left, ast.Call) or not isinstance(right, ast.Call) else (left, right)
        return min(sides, key=self._count_imported)

    def _count_imported(self, side: ast.expr) -> int:
        names = [node.id for node in ast.walk(side) if isinstance(node, ast.Name)]
        return sum(name in self.source.imported for name in names)

    def _of_order(self, operator: type[ast.cmpop], left: ast.expr, right: ast.expr) -> Iterator[Edits]:
        """A bound moved so far that what was above it is below."""
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
        return change(self.source, literal, self.random, self.familiar)


def _conjuncts(condition: ast.expr) -> Iterable[ast.expr]:
    return condition.values if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And) else [condition]


def _find_approximate(side: ast.expr) -> ast.expr | None:
    """The literal in `approx(…)`."""
    match side:
        case ast.Call(func=ast.Attribute(attr="approx") | ast.Name(id="approx"), args=[literal, *_]):
            return literal if is_literal(literal) else None
    return None
