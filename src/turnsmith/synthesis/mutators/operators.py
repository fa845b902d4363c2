"""Operator bugs: arithmetic, comparison and boolean operators become another of their kind."""

from collections.abc import Iterator

import libcst as cst

from turnsmith.synthesis.mutators.base import SourceTree, TextEdit

ARITHMETIC = {
    **{b"+": b"-", b"-": b"+", b"*": b"//", b"/": b"*", b"//": b"%", b"%": b"//", b"**": b"*"},
    **{b"|": b"&", b"&": b"|", b"^": b"&", b"<<": b">>", b">>": b"<<"},
}
AUGMENTED = {b"+=": b"-=", b"-=": b"+=", b"*=": b"+=", b"/=": b"*=", b"//=": b"%=", b"%=": b"//="}
COMPARISON = {
    **{b"==": b"!=", b"!=": b"==", b"<": b">", b">": b"<", b"<=": b">=", b">=": b"<="},
    **{b"is": b"is not", b"is not": b"is", b"in": b"not in", b"not in": b"in"},
}
BOOLEAN = {b"and": b"or", b"or": b"and"}
KINDS = (
    ("arithmetic", cst.BaseBinaryOp, ARITHMETIC),
    ("arithmetic", cst.BaseAugOp, AUGMENTED),
    ("comparison", cst.BaseCompOp, COMPARISON),
    ("boolean", cst.BaseBooleanOp, BOOLEAN),
)


def mutate_operators(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """`a + b` → `a - b`, `a == b` → `a != b`, `a and b` → `a or b`, `-a` → `a`."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus | cst.BitInvert):
        yield tree.replace("sign", node, tree.text(node.expression))
    for name, kind, others in KINDS:
        if isinstance(node, kind) and (other := others.get(b" ".join(tree.text(node).split()))):
            yield tree.replace(name, node, other)
