"""What a test expects, found in its syntax tree, and bent: into something else that could as well be meant.

A literal is bent where it stands, also as an argument of what it makes. What is computed by the test's own means goes through a
helper, in the test itself as in its twins, but there it is handed on as it is. So the two differ in one number, and in what is
expected. What the code under test computes is left alone: it is no expectation.
"""

import ast
import copy
import re
from collections.abc import Callable, Collection, Iterator
from functools import partial

from turnsmith.rewards.chance import CHANCE
from turnsmith.rewards.literals import (
    Bent,
    bend_argument,
    bend_constant,
    bend_member,
    bend_widely,
    find_answers,
    is_fixed,
    is_written_out,
    push,
    read_values,
)
from turnsmith.rewards.parameters import Test, change_column, find_columns
from turnsmith.rewards.placeholders import HELPER, write_salt
from turnsmith.rewards.stated import (
    Context,
    Surroundings,
    find_handed,
    find_names,
    find_stated,
    is_certain,
    is_new_object,
    read_context,
)

Bend = Callable[[Bent | None], None]
"""Changes the syntax tree that it belongs to: bends an expectation, or (None) only makes it look as the bent one does."""

_COMPARING = re.compile(
    r"assert(Almost)?(Equals?|Is|CountEqual|(List|Tuple|Set|Dict|Sequence|MultiLine)Equal)"
    r"|assert_(array_|almost_|array_almost_|frame_|series_|index_|list_|dict_)?equals?|assert_allclose"
)
_ROUGHLY = re.compile(r"assertAlmostEquals?|assert_(array_)?almost_equal|assert_allclose")
"""Of these, with a tolerance."""
_CALLED = re.compile(r"assert_(called|awaited)\w*")
_CALLED_AMONG_OTHERS = re.compile(r"assert_(any|has)_(call|await)s?")
"""What a mock was called with, and what it was called with, too."""
_ORDERING = {"assertGreater": ast.Gt, "assertGreaterEqual": ast.GtE, "assertLess": ast.Lt, "assertLessEqual": ast.LtE}
_RAISING = {"raises", "assertRaises", "assertRaisesRegex"}
_RARE_EXCEPTIONS = {"BufferError", "EOFError", "FloatingPointError", "ReferenceError", "ZeroDivisionError"}
"""What hardly anything derives from beside the one that is expected."""
_ALL_EXCEPTIONS = {"BaseException", "Exception"}
"""Whoever expects one of these is content with any other."""
_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
}
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}


def find_bends(test: Test, file: Surroundings) -> list[Bend]:
    """Every way to turn one expectation of a test into another, in the order in which they stand.

    Where an assertion that fails would not make the test fail, there is none.
    """
    around = read_context(test, file)
    return [bend for node in _walk_in_sight(test, find_handed(test)) for bend in _bends(node, around)]


def _walk_in_sight(node: ast.AST, handed: Collection[str]) -> Iterator[ast.AST]:
    """All nodes of a test but those of callbacks and of what is tried: they may run once more, or nobody hears of them."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not _is_out_of_sight(child, node, handed):
            yield from _walk_in_sight(child, handed)


def _is_out_of_sight(node: ast.AST, parent: ast.AST, handed: Collection[str]) -> bool:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return node.name in handed
        case ast.Lambda() | ast.ClassDef():
            return True
    return isinstance(parent, ast.Try) and node in parent.body and any(map(_catches_failures, parent.handlers))


def _catches_failures(handler: ast.ExceptHandler) -> bool:
    return not handler.type or bool(find_names([handler.type]) & {"AssertionError", "Exception", "BaseException"})


def _bends(node: ast.AST, around: Context) -> list[Bend]:
    match node:
        case ast.Assert():
            found = [bend for part in _conjuncts(node.test) for bend in _bends_of_condition(part, around)]
            return found or [partial(_negate, node)]
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[_, *_]):
            return _bends_of_call(node, name, around)
    return []


def _conjuncts(condition: ast.expr) -> list[ast.expr]:
    return condition.values if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And) else [condition]


def _bends_of_condition(condition: ast.expr, around: Context) -> list[Bend]:
    """None where only the opposite can be asked for."""
    if not isinstance(condition, ast.Compare):
        return []
    sides = [condition.left, *condition.comparators]
    links = zip(sides, condition.ops, condition.comparators, strict=False)
    return [bend for link in links for bend in _bends_of_comparison(condition, *link, around)]


def _bends_of_comparison(
    parent: ast.Compare, left: ast.expr, operator: ast.cmpop, right: ast.expr, around: Context
) -> list[Bend]:
    match operator:
        case ast.Eq() | ast.Is():
            return [partial(_bend_side, parent, side, around) for side in find_stated(left, right, around)]
        case ast.In() if is_written_out(left):
            return [partial(_bend_member, left, around)]
    return _bends_of_order(type(operator), left, right)


def _bends_of_order(operator: type[ast.cmpop], left: ast.expr, right: ast.expr) -> list[Bend]:
    """Numbers moved far enough that what was above them is below."""
    is_above = operator in (ast.Gt, ast.GtE)
    if operator not in _ORDERING.values():
        return []
    return [partial(_push, side, is_up=is_above is (side is right)) for side in (left, right) if is_written_out(side)]


def _bends_of_call(call: ast.Call, name: str, around: Context) -> list[Bend]:
    """Assertions that are methods, and expected exceptions."""
    first, second = call.args[0], next(iter(call.args[1:]), None)
    if second and _ROUGHLY.fullmatch(name) and (call.keywords or len(call.args) > 2):
        return [partial(_bend_widely, call, side, around) for side in (first, second) if is_written_out(side)]
    if second and _COMPARING.fullmatch(name):
        return [partial(_bend_side, call, side, around) for side in find_stated(first, second, around)]
    if _CALLED_AMONG_OTHERS.fullmatch(name):
        return [partial(_bend_member, side, around) for side in call.args if is_written_out(side)]
    if _CALLED.fullmatch(name):
        return [partial(_bend_side, call, side, around) for side in call.args if is_written_out(side)]
    if second and name in _ORDERING:
        return _bends_of_order(_ORDERING[name], first, second)
    if second and name == "assertIn" and is_written_out(first):
        return [partial(_bend_member, first, around)]
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
    """Another exception, which nothing else derives from."""
    if how:
        others = _RARE_EXCEPTIONS - find_names([call.args[0]])
        call.args[0] = ast.Name(CHANCE.choice(sorted(others)), ast.Load())


def _push(side: ast.expr, how: Bent | None, *, is_up: bool) -> None:
    if how:
        push(side, is_up=is_up)


def _bend_side(parent: ast.AST, side: ast.expr, around: Context, how: Bent | None) -> None:
    """Bend what is expected where it is written, so that who looks for it in the test finds what is bent."""
    if isinstance(side, ast.Name) and _is_only_expected(side.id, around.test):
        _bend_variable(parent, side, around, how)
    elif isinstance(side, ast.Name) and (assignment := around.assignments.get(side.id)) and is_fixed(assignment.value):
        stated = copy.deepcopy(assignment.value)
        _bend_literal(stated, around, how)
        _put(parent, side, stated)
    elif is_written_out(side):
        _bend_literal(side, around, how)
    elif is_new_object(side, around):
        _bend_object(side, around, how)
    else:
        _put(parent, side, _help(side, around, how))


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
    if change_column(test, side.id, is_written_out, partial(_bend_literal, around=around, how=how)):
        return
    if side.id in _arguments(test):
        test.body.insert(0, ast.Assign([ast.Name(side.id, ast.Store())], _help(side, around, how)))
    elif assignment := around.assignments.get(side.id):
        _bend_side(assignment, assignment.value, around, how)
    else:
        _put(parent, side, _help(side, around, how))


def _bend_literal(side: ast.expr, around: Context, how: Bent | None) -> None:
    """Change one constant of what is written out."""
    if how:
        bend_constant(find_answers(side), around.values, how)


def _bend_object(side: ast.expr, around: Context, how: Bent | None) -> None:
    """Change one argument of what is made of literals; of `approx` with a tolerance, the number, and that far."""
    match side:
        case ast.Call(args=[number, *others], keywords=words) as call if "approx" in ast.unparse(call.func) and (
            others or words
        ):
            _bend_widely(call, number, around, how)
        case _ if how:
            bend_argument(find_answers(side), around.values, how)


def _bend_widely(call: ast.Call, number: ast.expr, around: Context, how: Bent | None) -> None:
    if how:
        given = [*call.args, *(word.value for word in call.keywords)]
        tolerances = [value for other in given if other is not number for value in read_values(other)]
        bend_widely(find_answers(number), tolerances, around.values, how)


def _bend_member(side: ast.expr, around: Context, how: Bent | None) -> None:
    if how:
        bend_member(side, around.values, how)


def _put(parent: ast.AST, old: ast.expr, new: ast.expr) -> None:
    """Replace a node below its parent."""
    for name, value in ast.iter_fields(parent):
        if value is old:
            setattr(parent, name, new)
        elif isinstance(value, list):
            setattr(parent, name, [new if item is old else item for item in value])


def _help(value: ast.expr, around: Context, how: Bent | None) -> ast.expr:
    """A call of the helper, which may skip where what it bends can be the code's under test, of whatever kind."""
    salt = write_salt("crooked" if is_certain(value, around) else "slanted") if how else write_salt("straight")
    return ast.Call(ast.Name(HELPER, ast.Load()), [value, ast.Constant(salt)], [])
