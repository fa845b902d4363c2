"""Condition bugs: a branch is taken when it should not be, or not quite when it should."""

from collections.abc import Iterator

import libcst as cst

from turnsmith.synthesis.mutators.base import SourceTree, Span, TextEdit

OFF_BY_ONE: dict[type[cst.CSTNode], bytes] = {
    cst.LessThan: b"<=",
    cst.LessThanEqual: b"<",
    cst.GreaterThan: b">=",
    cst.GreaterThanEqual: b">",
}


def mutate_conditions(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """`if a` → `if not (a)`, `a and b` → `a`, `a < b` → `a <= b`, and the two branches of an `if` exchanged."""
    if type(node) in OFF_BY_ONE:
        yield tree.replace("off_by_one", node, OFF_BY_ONE[type(node)])
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
    elif test.lpar:
        yield tree.replace("negate", test, b"not " + tree.text(test))
    else:
        yield tree.replace("negate", test, b"not (" + tree.text(test) + b")")


def _exchange_branches(node: cst.If, tree: SourceTree) -> Iterator[TextEdit]:
    bodies = [node.body, node.orelse.body] if isinstance(node.orelse, cst.Else) else []
    blocks = [body for body in bodies if isinstance(body, cst.IndentedBlock)]
    if len(blocks) == 2:
        yield from tree.exchange("exchange_branches", *(_block_lines(block, tree) for block in blocks))


def _block_lines(block: cst.IndentedBlock, tree: SourceTree) -> Span:
    return tree.line_span(block.body[0])[0], tree.line_span(block.body[-1])[1]
