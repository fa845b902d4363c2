"""What a test expects, found in its syntax tree, and bent: into something else that could as well be meant.

A literal is bent where it stands, also as an argument of what it makes. What is computed by the test's own means goes through a
helper, in the test itself as in its twins, but there it is handed on as it is. So the two differ in one number, and in what is
expected. What the code under test computes is left alone: it is no expectation.
"""

import ast
import copy
import re
from collections.abc import Callable, Collection
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
from turnsmith.rewards.placeholders import HELPER, write_salt
from turnsmith.rewards.stated import Context, find_names, find_stated, is_new_object, read_context

Bend = Callable[[Bent | None], None]
"""Changes the syntax tree that it belongs to: bends an expectation, or (None) only makes it look as the bent one does."""

_COMPARING = re.compile(
    r"assert(Almost)?(Equals?|Is|CountEqual|(List|Tuple|Set|Dict|Sequence|MultiLine)Equal)"
    r"|assert_(array_|almost_|array_almost_|frame_|series_|index_|list_|dict_)?equals?|assert_allclose"
)
_CALLED = re.compile(r"assert_(called|awaited|any_call|any_await|has_calls|has_awaits)\w*")
"""What a mock was called with."""
_ORDERING = {"assertGreater": ast.Gt, "assertGreaterEqual": ast.GtE, "assertLess": ast.Lt, "assertLessEqual": ast.LtE}
_RAISING = {"raises", "assertRaises", "assertRaisesRegex"}
_COMMON_EXCEPTIONS = frozenset(
    {"ValueError", "TypeError", "KeyError", "IndexError", "AttributeError", "RuntimeError", "OSError", "StopIteration"}
)
"""What one often meets, and what a project often derives its own from."""
_RARE_EXCEPTIONS = frozenset({"BufferError", "ChildProcessError", "EOFError", "FloatingPointError", "ReferenceError"})
_ALL_EXCEPTIONS = {"BaseException", "Exception"}
"""Whoever expects one of these is content with any other."""
_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
}
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}


def find_bends(test: Test, own: Collection[str]) -> list[Bend]:
    """Every way to turn one expectation of a test into another, in the order in which they stand.

    `own` are the names of what is the test's own, or Python's, and so not under test.
    """
    around = read_context(test, own)
    return [bend for node in ast.walk(test) for bend in _bends(node, around)]


def _bends(node: ast.AST, around: Context) -> list[Bend]:
    match node:
        case ast.Assert():
            found = [bend for part in _conjuncts(node.test) for bend in _bends_of_comparison(part, around)]
            return found or [partial(_negate, node)]
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[_, *_]):
            return _bends_of_call(node, name, around)
    return []


def _conjuncts(condition: ast.expr) -> list[ast.expr]:
    return condition.values if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And) else [condition]


def _bends_of_comparison(condition: ast.expr, around: Context) -> list[Bend]:
    """None where only the opposite can be asked for."""
    match condition:
        case ast.Compare(ops=[ast.Eq() | ast.Is()], left=left, comparators=[right]):
            return [partial(_bend_side, condition, side, around) for side in find_stated(left, right, around)]
        case ast.Compare(ops=[ast.In()], left=member) if is_written_out(member):
            return [partial(_bend_member, member, around.test)]
        case ast.Compare(ops=[operator], left=left, comparators=[right]):
            return _bends_of_order(type(operator), left, right)
    return []


def _bends_of_order(operator: type[ast.cmpop], left: ast.expr, right: ast.expr) -> list[Bend]:
    """Numbers moved far enough that what was above them is below."""
    is_above = operator in (ast.Gt, ast.GtE)
    if operator not in _ORDERING.values():
        return []
    return [partial(_push, side, is_up=is_above is (side is right)) for side in (left, right) if is_written_out(side)]


def _bends_of_call(call: ast.Call, name: str, around: Context) -> list[Bend]:
    """Assertions that are methods, and expected exceptions."""
    first, second = [*call.args, None][:2]
    assert first
    if second and _COMPARING.fullmatch(name):
        return [partial(_bend_side, call, side, around) for side in find_stated(first, second, around)]
    if _CALLED.fullmatch(name):
        return [partial(_bend_side, call, side, around) for side in call.args if is_written_out(side)]
    if second and name in _ORDERING:
        return _bends_of_order(_ORDERING[name], first, second)
    if second and name == "assertIn" and is_written_out(first):
        return [partial(_bend_member, first, around.test)]
    if name in _RAISING and not _ALL_EXCEPTIONS & find_names([first]):
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
    """Another exception: in the place of one of Python's another that one often meets, else one that nothing derives from."""
    if how:
        named = find_names([call.args[0]])
        others = _COMMON_EXCEPTIONS - named if named & _COMMON_EXCEPTIONS else frozenset[str]()
        call.args[0] = ast.Name(CHANCE.choice(sorted(others or _RARE_EXCEPTIONS)), ast.Load())


def _push(side: ast.expr, how: Bent | None, *, is_up: bool) -> None:
    if how:
        push(side, is_up=is_up)


def _bend_side(parent: ast.AST, side: ast.expr, around: Context, how: Bent | None) -> None:
    """Bend what is expected where it is written, so that who looks for it in the test finds what is bent."""
    test = around.test
    if isinstance(side, ast.Name) and _is_only_expected(side.id, test):
        _bend_variable(parent, side, around, how)
    elif isinstance(side, ast.Name) and (assignment := around.assignments.get(side.id)) and is_fixed(assignment.value):
        stated = copy.deepcopy(assignment.value)
        _bend_literal(stated, test, how)
        _put(parent, side, stated)
    elif is_written_out(side) or is_new_object(side, around):
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


def _bend_variable(parent: ast.AST, side: ast.Name, around: Context, how: Bent | None) -> None:
    """Bend what a variable holds, where it gets it."""
    test = around.test
    if change_column(test, side.id, is_written_out, partial(_bend_literal, test=test, how=how)):
        return
    if side.id in _arguments(test):
        test.body.insert(0, ast.Assign([ast.Name(side.id, ast.Store())], _help(side, how)))
    elif assignment := around.assignments.get(side.id):
        _bend_side(assignment, assignment.value, around, how)
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


def _put(parent: ast.AST, old: ast.expr, new: ast.expr) -> None:
    """Replace a node below its parent."""
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list):
            setattr(parent, name, [new if item is old else item for item in value])


def _help(value: ast.expr, how: Bent | None) -> ast.expr:
    """A call of the helper."""
    return ast.Call(ast.Name(HELPER, ast.Load()), [value, ast.Constant(write_salt(is_bent=bool(how)))], [])
