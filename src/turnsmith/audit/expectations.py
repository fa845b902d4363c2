"""Assertions of a test, and the literals that they compare with."""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from turnsmith.audit.literals import is_literal
from turnsmith.audit.sources import Test

_CATCHING = {"raises", "assertRaises", "assertRaisesRegex", "suppress", "deprecated_call"}
"""Names of context managers that catch exceptions. Assertions in their blocks may be skipped, so `find_assertions` omits them."""
_OWN_CALLS = {"range", "zip", "enumerate", "sorted", "items", "product"}
"""Names of functions in the head of a loop that run no code under test, so that this code cannot make the loop empty."""


@dataclass(frozen=True)
class Scope:
    """Test function, in which assertions and their expected literals are found."""

    test: Test

    def find_literals(self, side: ast.expr) -> list[ast.expr]:
        """Find the literals that one side of a comparison stands for: inline, in a variable, or in rows of `parametrize`.

        A variable that the test reads more than once gives none, since a changed value would alter the other uses, too.
        """
        if is_literal(side):
            return [side]
        if not isinstance(side, ast.Name) or self._num_reads[side.id] != 1:
            return []
        values = self._assigned.get(side.id) or self.columns.get(side.id, [])
        return values if all(map(is_literal, values)) else []

    @cached_property
    def constants(self) -> list[Any]:
        return [node.value for node in ast.walk(self.test) if isinstance(node, ast.Constant)]

    @cached_property
    def _num_reads(self) -> Counter[str]:
        nodes = [node for statement in self.test.body for node in ast.walk(statement)]
        return Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))

    @cached_property
    def _assigned(self) -> dict[str, list[ast.expr]]:
        """Map each variable that the test assigns once, and in every run, to the assigned expression."""
        names = [node for node in ast.walk(self.test) if isinstance(node, ast.Name)]
        stores = Counter(name.id for name in names if not isinstance(name.ctx, ast.Load))
        plain = [node for node in self.test.body if isinstance(node, ast.Assign) and len(node.targets) == 1]
        found = {name.id: [node.value] for node in plain for name in node.targets if isinstance(name, ast.Name)}
        return {name: values for name, values in found.items() if stores[name] == 1}

    @cached_property
    def columns(self) -> dict[str, list[ast.expr]]:
        """Map each parameter of the test to its literal values in the rows of `parametrize`."""
        columns = [_read_columns(mark) for mark in self.test.decorator_list if isinstance(mark, ast.Call)]
        return {name: values for column in columns for name, values in column.items()}


def find_assertions(body: list[ast.stmt]) -> Iterator[ast.Assert | ast.Call]:
    """Yield the `assert` statements and calls that every run of a test reaches, in order, including `with raises(…)`."""
    for statement in body:
        if isinstance(statement, ast.If | ast.While) and any(
            isinstance(node, ast.Return) for node in ast.walk(statement)
        ):
            return
        match statement:
            case ast.Assert():
                yield statement
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
                yield call
            case ast.With(items=items) | ast.AsyncWith(items=items):
                calls = [item.context_expr for item in items if isinstance(item.context_expr, ast.Call)]
                yield from calls
                if not any(_name(call) in _CATCHING for call in calls):
                    yield from find_assertions(statement.body)
            case ast.For(iter=over) if _is_own(over):
                yield from find_assertions(statement.body)
            case ast.Try(handlers=[]):
                yield from find_assertions([*statement.body, *statement.finalbody])


def walk_assertions(node: ast.AST) -> Iterator[ast.Assert | ast.Call]:
    """Yield all `assert` statements and calls in a piece of code in order, also in branches and nested functions."""
    if isinstance(node, ast.Assert | ast.Call):
        yield node
    for below in ast.iter_child_nodes(node):
        yield from walk_assertions(below)


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _is_own(over: ast.expr) -> bool:
    """Return True if a loop runs over values from the test itself, so that code under test cannot make it skip the loop."""
    return all(_name(call) in _OWN_CALLS for call in ast.walk(over) if isinstance(call, ast.Call))


def _read_columns(mark: ast.Call) -> dict[str, list[ast.expr]]:
    match mark:
        case ast.Call(
            func=ast.Attribute(attr="parametrize"), args=[names, ast.List(elts=rows) | ast.Tuple(elts=rows), *_]
        ):
            if any(keyword.arg == "indirect" for keyword in mark.keywords):
                return {}
            wanted = _read_names(names)
            table = [_read_row(row, len(wanted)) for row in rows]
            if rows and all(len(row) == len(wanted) for row in table):
                return {name: list(column) for name, column in zip(wanted, zip(*table, strict=True), strict=True)}
    return {}


def _read_names(names: ast.expr) -> list[str]:
    """Read the parameter names of `parametrize`: `"a, b"` or `("a", "b")`."""
    texts = [str(node.value) for node in ast.walk(names) if isinstance(node, ast.Constant)]
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _read_row(row: ast.expr, num_names: int) -> list[ast.expr]:
    match row:
        case ast.Call(func=ast.Attribute(attr="param") | ast.Name(id="param"), args=values):
            return values
        case ast.List(elts=values) | ast.Tuple(elts=values) if num_names > 1:
            return values
    return [row]
