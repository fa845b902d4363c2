"""Operator bugs: arithmetic, comparison and boolean operators become another of their kind."""

from collections.abc import Iterator

import libcst as cst

from turnsmith.synthesis.mutators.base import SourceTree, TextEdit

ARITHMETIC: dict[type[cst.CSTNode], bytes] = {
    cst.Add: b"-",
    cst.Subtract: b"+",
    cst.Multiply: b"//",
    cst.Divide: b"*",
    cst.FloorDivide: b"%",
    cst.Modulo: b"//",
    cst.Power: b"*",
    cst.BitAnd: b"|",
    cst.BitOr: b"&",
    cst.BitXor: b"&",
    cst.LeftShift: b">>",
    cst.RightShift: b"<<",
}
AUGMENTED: dict[type[cst.CSTNode], bytes] = {
    cst.AddAssign: b"-=",
    cst.SubtractAssign: b"+=",
    cst.MultiplyAssign: b"+=",
    cst.DivideAssign: b"*=",
    cst.FloorDivideAssign: b"%=",
    cst.ModuloAssign: b"//=",
}
COMPARISON: dict[type[cst.CSTNode], bytes] = {
    cst.Equal: b"!=",
    cst.NotEqual: b"==",
    cst.LessThan: b">",
    cst.GreaterThan: b"<",
    cst.LessThanEqual: b">=",
    cst.GreaterThanEqual: b"<=",
    cst.Is: b"is not",
    cst.IsNot: b"is",
    cst.In: b"not in",
    cst.NotIn: b"in",
}
BOOLEAN: dict[type[cst.CSTNode], bytes] = {cst.And: b"or", cst.Or: b"and"}


def mutate_operators(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """`a + b` → `a - b`, `a == b` → `a != b`, `a and b` → `a or b`, `-a` → `a`."""
    if isinstance(node, cst.UnaryOperation):
        yield from _drop_sign(node, tree)
    for name, table in (
        ("arithmetic", ARITHMETIC),
        ("arithmetic", AUGMENTED),
        ("comparison", COMPARISON),
        ("boolean", BOOLEAN),
    ):
        if type(node) in table:
            yield tree.replace(name, node, table[type(node)])


def _drop_sign(node: cst.UnaryOperation, tree: SourceTree) -> Iterator[TextEdit]:
    if isinstance(node.operator, cst.Minus | cst.BitInvert):
        yield tree.replace("sign", node, tree.text(node.expression))
