"""Condition bugs: a branch is taken when it should not be, or not quite when it should."""

from collections.abc import Iterator

import libcst as cst

from turnsmith.synthesis.mutators.base import SourceTree, TextEdit

OFF_BY_ONE = {b"<": b"<=", b"<=": b"<", b">": b">=", b">=": b">"}


def mutate_conditions(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """`if a` → `if not (a)`, `a and b` → `a`, `a < b` → `a <= b`, and the two branches of an `if` exchanged."""
    if isinstance(node, cst.BaseCompOp) and (other := OFF_BY_ONE.get(tree.text(node))):
        yield tree.replace("off_by_one", node, other)
    if isinstance(node, cst.If | cst.While | cst.IfExp | cst.CompIf):
        yield from _negate(node.test, tree)
    if isinstance(node, cst.BooleanOperation):
        yield tree.replace("drop_operand", node, tree.text(node.left))
        yield tree.replace("drop_operand", node, tree.text(node.right))
    if isinstance(node, cst.If):
        yield from _exchange_branches(node, tree)


def _negate(test: cst.BaseExpression, tree: SourceTree) -> Iterator[TextEdit]:
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield tree.replace("negate", test, tree.text(test.expression))
    else:
        yield tree.replace("negate", test, (b"not %s" if test.lpar else b"not (%s)") % tree.text(test))


def _exchange_branches(node: cst.If, tree: SourceTree) -> Iterator[TextEdit]:
    bodies = [node.body, node.orelse.body] if isinstance(node.orelse, cst.Else) else []
    spans = [
        (tree.line_span(body.body[0])[0], tree.line_span(body.body[-1])[1])
        for body in bodies
        if isinstance(body, cst.IndentedBlock)
    ]
    if len(spans) == 2:
        yield from tree.exchange("exchange_branches", *spans)
