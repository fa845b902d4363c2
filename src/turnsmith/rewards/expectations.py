"""What a test expects, found in its syntax tree, and bent: into something else that could as well be meant.

A literal is bent where it stands. What is computed goes through a helper, in the test itself as in its twins, but there it is
handed on as it is. So the two differ in one number, and in what is expected.
"""

import ast
import copy
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from turnsmith.rewards.chance import CHANCE
from turnsmith.rewards.literals import (
    Bent,
    bend_constant,
    bend_member,
    find_answers,
    find_constants,
    is_fixed,
    is_written_out,
    push,
)
from turnsmith.rewards.parameters import Test, change_column, find_columns

Bend = Callable[[Bent | None], None]
"""Changes the syntax tree that it belongs to: bends an expectation, or (None) only makes it look as the bent one does."""

HELPER = "_double99999_"
STRAIGHT, BENT = "straight", "crooked"
"""Placeholders of salts, odd and even numbers, begin so."""

_COMPARING = re.compile(r"assert(Almost)?(Equals?|Is|CountEqual|(List|Tuple|Set|Dict|Sequence|MultiLine)Equal)")
_ORDERING = {"assertGreater": ast.Gt, "assertGreaterEqual": ast.GtE, "assertLess": ast.Lt, "assertLessEqual": ast.LtE}
_RAISING = {"raises", "assertRaises", "assertRaisesRegex"}
_EXCEPTIONS = (
    "ValueError",
    "TypeError",
    "KeyError",
    "IndexError",
    "AttributeError",
    "RuntimeError",
    "OSError",
    "StopIteration",
)
_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
}
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}


def find_bends(test: Test) -> list[Bend]:
    """Every way to turn one expectation of a test into another, in the order in which they stand."""
    return [bend for node in ast.walk(test) for bend in _bends(node, test)]


def _bends(node: ast.AST, test: Test) -> list[Bend]:
    match node:
        case ast.Assert():
            found = [bend for part in _conjuncts(node.test) for bend in _bends_of_comparison(part, test)]
            return found or [partial(_negate, node)]
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[_, *more]):
            return _bends_of_call(node, name, test, has_more=bool(more))
    return []


def _conjuncts(condition: ast.expr) -> list[ast.expr]:
    return condition.values if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And) else [condition]


def _bends_of_comparison(condition: ast.expr, test: Test) -> list[Bend]:
    """None where only the opposite can be asked for."""
    match condition:
        case ast.Compare(ops=[ast.Eq() | ast.Is()], left=left, comparators=[right]):
            return [partial(_bend_side, condition, side, test) for side in _find_stated(left, right, test)]
        case ast.Compare(ops=[ast.In()], left=member) if is_written_out(member):
            return [partial(_bend_member, member, test)]
        case ast.Compare(ops=[operator], left=left, comparators=[right]):
            return _bends_of_order(type(operator), left, right)
    return []


def _bends_of_order(operator: type[ast.cmpop], left: ast.expr, right: ast.expr) -> list[Bend]:
    """Numbers moved far enough that what was above them is below."""
    is_above = operator in (ast.Gt, ast.GtE)
    if operator not in _ORDERING.values():
        return []
    return [partial(_push, side, is_up=is_above is (side is right)) for side in (left, right) if is_written_out(side)]


def _bends_of_call(call: ast.Call, name: str, test: Test, *, has_more: bool) -> list[Bend]:
    """Assertions that are methods, and expected exceptions."""
    if has_more and _COMPARING.fullmatch(name):
        return [partial(_bend_side, call, side, test) for side in _find_stated(call.args[0], call.args[1], test)]
    if has_more and name in _ORDERING:
        return _bends_of_order(_ORDERING[name], call.args[0], call.args[1])
    if has_more and name == "assertIn" and is_written_out(call.args[0]):
        return [partial(_bend_member, call.args[0], test)]
    if name in _RAISING:
        return [partial(_expect_another, call)]
    if name in _OPPOSITES and isinstance(call.func, ast.Attribute):
        return [partial(_turn_round, call.func)]
    return []


def _negate(assertion: ast.Assert, how: Bent | None) -> None:
    if how:
        assertion.test = ast.UnaryOp(ast.Not(), assertion.test)


def _turn_round(method: ast.Attribute, how: Bent | None) -> None:
    if how:
        method.attr = _OPPOSITES[method.attr]


def _expect_another(call: ast.Call, how: Bent | None) -> None:
    """Another exception, of those that one often meets."""
    if how:
        named = {node.id for node in ast.walk(call.args[0]) if isinstance(node, ast.Name)}
        call.args[0] = ast.Name(CHANCE.choice([name for name in _EXCEPTIONS if name not in named]), ast.Load())


def _push(side: ast.expr, how: Bent | None, *, is_up: bool) -> None:
    if how:
        push(side, is_up=is_up)


def _find_stated(first: ast.expr, second: ast.expr, test: Test) -> list[ast.expr]:
    """The sides of a comparison that state what is expected: what is written out, else what comes of no call, else both."""
    sides = [first, second]
    written = [side for side in sides if is_written_out(side)]
    return written or [side for side in sides if not _calls(_trace(side, test))] or sides


def _trace(side: ast.expr, test: Test) -> ast.expr:
    """What a variable, or that of which it is a part, was made of, where it has one value."""
    while isinstance(side, ast.Subscript | ast.Attribute):
        side = side.value
    assignment = _find_assignment(side.id, test) if isinstance(side, ast.Name) else None
    return assignment.value if assignment else side


def _calls(side: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(side))


def _bend_side(parent: ast.AST, side: ast.expr, test: Test, how: Bent | None) -> None:
    """Bend what is expected where it is written, so that who looks for it in the test finds what is bent."""
    if isinstance(side, ast.Name) and _is_only_expected(side.id, test):
        _bend_variable(parent, side, test, how)
    elif isinstance(side, ast.Name) and (assignment := _find_assignment(side.id, test)) and is_fixed(assignment.value):
        stated = copy.deepcopy(assignment.value)
        _bend_literal(stated, test, how)
        _put(parent, side, stated)
    elif is_written_out(side):
        _bend_literal(side, test, how)
    else:
        _put(parent, side, _help(side, how))


def _is_only_expected(name: str, test: Test) -> bool:
    """Is a variable read for the expectation alone? Else, bent, it would ask another question."""
    nodes = (node for statement in test.body for node in ast.walk(statement))
    num_reads = sum(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in nodes)
    has_fixtures = bool(_arguments(test) - find_columns(test) - {"self"})
    return num_reads == 1 and not (has_fixtures and name in find_columns(test))


def _arguments(test: Test) -> set[str]:
    return {argument.arg for argument in test.args.args}


def _bend_variable(parent: ast.AST, side: ast.Name, test: Test, how: Bent | None) -> None:
    """Bend what a variable holds, where it gets it."""
    if change_column(test, side.id, is_written_out, partial(_bend_literal, test=test, how=how)):
        return
    if side.id in _arguments(test):
        test.body.insert(0, ast.Assign([ast.Name(side.id, ast.Store())], _help(side, how)))
    elif assignment := _find_assignment(side.id, test):
        _bend_side(assignment, assignment.value, test, how)
    else:
        _put(parent, side, _help(side, how))


def _bend_literal(side: ast.expr, test: Test, how: Bent | None) -> None:
    """Change one constant of what is written out."""
    if how:
        bend_constant(find_answers(side), _values(test), how)


def _bend_member(side: ast.expr, test: Test, how: Bent | None) -> None:
    if how:
        bend_member(side, _values(test), how)


def _values(test: Test) -> list[Any]:
    """What stands in a test, of all its constants."""
    return [node.value for node in find_constants(test)]


def _find_assignment(name: str, test: Test) -> ast.Assign | None:
    """The one place where a variable gets its value, if it does not depend on itself."""
    match [node for node in ast.walk(test) if isinstance(node, ast.Assign) and name in _names(node.targets)]:
        case [ast.Assign(targets=[ast.Name()], value=value) as assignment] if name not in _names([value]):
            return assignment
    return None


def _names(nodes: Iterable[ast.AST]) -> set[str]:
    return {below.id for node in nodes for below in ast.walk(node) if isinstance(below, ast.Name)}


def _put(parent: ast.AST, old: ast.expr, new: ast.expr) -> None:
    """Replace a node below its parent."""
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list):
            setattr(parent, name, [new if item is old else item for item in value])


def _help(value: ast.expr, how: Bent | None) -> ast.expr:
    """A call of the helper, with a placeholder for a salt that tells it what to do; two that are alike do no harm."""
    salt = f"{BENT if how else STRAIGHT}{CHANCE.randrange(100_000):05}_"
    return ast.Call(ast.Name(HELPER, ast.Load()), [value, ast.Constant(salt)], [])
