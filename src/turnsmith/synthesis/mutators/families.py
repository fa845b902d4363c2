"""Families of small mutators, each of which makes one small change inside a function. Practice tasks use these families."""

from collections.abc import Iterator
from itertools import pairwise

import libcst as cst

from turnsmith.synthesis.mutators.base import Mutator, SourceTree, TextEdit, find_names

ARITHMETIC = {
    **{b"+": b"-", b"-": b"+", b"*": b"//", b"/": b"*", b"//": b"%", b"%": b"//", b"**": b"*"},
    **{b"|": b"&", b"&": b"|", b"^": b"&", b"<<": b">>", b">>": b"<<"},
}
AUGMENTED = {b"+=": b"-=", b"-=": b"+=", b"*=": b"+=", b"/=": b"*=", b"//=": b"%=", b"%=": b"//="}
COMPARISON = {
    **{b"==": b"!=", b"!=": b"==", b"<": b">", b">": b"<", b"<=": b">=", b">=": b"<="},
    **{b"is": b"is not", b"is not": b"is", b"in": b"not in", b"not in": b"in"},
}
OPERATORS = (
    ("arithmetic", cst.BaseBinaryOp, ARITHMETIC),
    ("arithmetic", cst.BaseAugOp, AUGMENTED),
    ("comparison", cst.BaseCompOp, COMPARISON),
    ("boolean", cst.BaseBooleanOp, {b"and": b"or", b"or": b"and"}),
)
OFF_BY_ONE = {b"<": b"<=", b"<=": b"<", b">": b">=", b">=": b">"}
ORDERED = (cst.Subtract, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power, cst.LeftShift, cst.RightShift)
"""Operators whose operands are exchanged to make a bug, since their order changes the result for all types."""
TEXT = (cst.SimpleString, cst.FormattedString)


def mutate_operators(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that change an operator: `a + b` → `a - b`, `a == b` → `a != b`, `a and b` → `a or b`, `-a` → `a`."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus | cst.BitInvert):
        yield tree.replace("sign", node, tree.text(node.expression))
    for name, kind, others in OPERATORS:
        if isinstance(node, kind) and (other := others.get(b" ".join(tree.text(node).split()))):
            yield tree.replace(name, node, other)


def mutate_constants(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that change a constant: `3` → `4` and `2`, `"abc"` → `"ab"`, `True` → `False`."""
    match node:
        case cst.Integer(evaluated_value=value):
            yield tree.replace("integer", node, str(value + 1).encode())
            if value > 0:
                yield tree.replace("integer", node, str(value - 1).encode())
        case cst.SimpleString(prefix="", quote='"' | "'" as quote, raw_value=text) if "\\" not in text:
            # In a prefixed, escaped or triple-quoted string the last character may be part of an escape or of the quotes.
            yield tree.replace("text", node, f"{quote}{text[:-1] if text else ' '}{quote}".encode())
        case cst.Name(value="True" | "False" as truth):
            yield tree.replace("truth", node, b"False" if truth == "True" else b"True")


def mutate_conditions(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that change a condition: `if a` → `if not (a)`, `a and b` → `a`, `a < b` → `a <= b`, exchanged branches."""
    match node:
        case cst.BaseCompOp() if other := OFF_BY_ONE.get(tree.text(node)):
            yield tree.replace("off_by_one", node, other)
        case cst.BooleanOperation():
            yield tree.replace("drop_operand", node, tree.text(node.left))
            yield tree.replace("drop_operand", node, tree.text(node.right))
        case cst.If(test=test) | cst.While(test=test) | cst.IfExp(test=test) | cst.CompIf(test=test):
            yield tree.replace("negate", test, negate(test, tree))
    match node:
        case cst.If(body=cst.IndentedBlock() as first, orelse=cst.Else(body=cst.IndentedBlock() as second)):
            yield from tree.exchange("exchange_branches", tree.block_span(first), tree.block_span(second))


def negate(test: cst.BaseExpression, tree: SourceTree) -> bytes:
    """Return the negated condition: `a < b` → `not (a < b)`, `not a` → `a`."""
    match test:
        case cst.UnaryOperation(operator=cst.Not()):
            return tree.text(test.expression)
        case _:
            return (b"not %s" if test.lpar else b"not (%s)") % tree.text(test)


def mutate_removals(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that remove an `if` without `else`, a re-assignment, a call or a loop exit; `return sorted(x)` → `return x`."""
    match node:
        case cst.IndentedBlock():
            for statement in node.body:
                if name := name_removal(statement):
                    yield tree.remove(name, tree.line_span(statement), is_alone=len(node.body) == 1)
        case cst.Return(value=cst.Call(args=[cst.Arg(value=value, keyword=None, star=""), *_]) as call):
            if not isinstance(value, cst.GeneratorExp | cst.NamedExpr):
                yield tree.replace("unwrap_return", call, tree.text(value))


def name_removal(statement: cst.CSTNode) -> str:
    """Return the name of the mutation that removes a statement; "" for others, such as a variable's first assignment."""
    match statement:
        case cst.If(orelse=None):
            return "remove_if"
        case cst.SimpleStatementLine(body=[cst.AugAssign()]):
            return "remove_assignment"
        case cst.SimpleStatementLine(body=[cst.Assign() as assignment]) if _updates(assignment):
            return "remove_assignment"
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() | cst.Await())]):
            return "remove_call"
        case cst.SimpleStatementLine(body=[cst.Break() | cst.Continue()]):
            return "remove_exit"
        case _:
            return ""


def _updates(assignment: cst.Assign) -> bool:
    """Return True if an assignment sets an attribute or an item, or a variable that its right-hand side reads (`x = x + 1`)."""
    targets = [target.target for target in assignment.targets]
    if all(isinstance(target, cst.Attribute | cst.Subscript) for target in targets):
        return True
    names = {target.value for target in targets if isinstance(target, cst.Name)}
    return bool(names & find_names(assignment.value))


def mutate_swaps(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that exchange operands, arguments or neighbouring statements: `a - b` → `b - a`, `f(a, b)` → `f(b, a)`."""
    match node:
        case cst.BinaryOperation() if order_matters(node):
            yield from tree.exchange("operands", tree.span(node.left), tree.span(node.right))
        case cst.Call():
            yield from swap_arguments("arguments", node, tree)
        case cst.IndentedBlock():
            for before, after in pairwise(node.body):
                if _is_movable(before) and _is_movable(after):
                    yield from tree.exchange("statements", tree.line_span(before), tree.line_span(after))


def swap_arguments(name: str, call: cst.Call, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that exchange two neighbouring positional arguments of a call."""
    positional = [tree.span(arg.value) for arg in call.args if arg.keyword is None and not arg.star]
    for first, second in pairwise(positional):
        yield from tree.exchange(name, first, second)


def order_matters(node: cst.BinaryOperation) -> bool:
    """Return True if exchanging the operands of an operation changes its result."""
    if isinstance(node.operator, cst.Add):
        return isinstance(node.left, TEXT) or isinstance(node.right, TEXT)
    return isinstance(node.operator, ORDERED)


def _is_movable(statement: cst.CSTNode) -> bool:
    """Return True if a statement is an assignment or a call, which may be exchanged with its neighbour."""
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(part, cst.Assign | cst.AugAssign)
        or (isinstance(part, cst.Expr) and isinstance(part.value, cst.Call))
        for part in statement.body
    )


FAMILIES: dict[str, Mutator] = {
    "operator": mutate_operators,
    "constant": mutate_constants,
    "condition": mutate_conditions,
    "removal": mutate_removals,
    "swap": mutate_swaps,
}
