"""Swap bugs: two things of one kind in the wrong order."""

from collections.abc import Iterator
from itertools import pairwise

import libcst as cst

from turnsmith.synthesis.mutators.base import SourceTree, TextEdit

ORDERED = (cst.Subtract, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power, cst.LeftShift, cst.RightShift)
"""Operators for which the order of the operands matters whatever the operands are."""
TEXT = (cst.SimpleString, cst.FormattedString)


def mutate_swaps(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """`a - b` → `b - a`, `f(a, b)` → `f(b, a)`, and two statements in a row exchanged."""
    if isinstance(node, cst.BinaryOperation) and _order_matters(node):
        yield from tree.exchange("operands", tree.span(node.left), tree.span(node.right))
    elif isinstance(node, cst.Call):
        yield from _swap_arguments(node, tree)
    elif isinstance(node, cst.IndentedBlock):
        yield from _swap_statements(node, tree)


def _order_matters(node: cst.BinaryOperation) -> bool:
    if isinstance(node.operator, cst.Add):
        return isinstance(node.left, TEXT) or isinstance(node.right, TEXT)
    return isinstance(node.operator, ORDERED)


def _swap_arguments(call: cst.Call, tree: SourceTree) -> Iterator[TextEdit]:
    positional = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    for first, second in pairwise(positional):
        yield from tree.exchange("arguments", tree.span(first), tree.span(second))


def _swap_statements(block: cst.IndentedBlock, tree: SourceTree) -> Iterator[TextEdit]:
    for first, second in pairwise(block.body):
        if _movable(first) and _movable(second):
            yield from tree.exchange("statements", tree.line_span(first), tree.line_span(second))


def _movable(statement: cst.CSTNode) -> bool:
    """Assignments and calls; a docstring, an import or an exit stays where it is."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    return all(
        isinstance(small, cst.Assign | cst.AugAssign)
        or (isinstance(small, cst.Expr) and isinstance(small.value, cst.Call))
        for small in statement.body
    )
