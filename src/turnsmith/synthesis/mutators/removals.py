"""Removal bugs: a statement that mattered is gone."""

from collections.abc import Iterator

import libcst as cst

from turnsmith.synthesis.mutators.base import SourceTree, TextEdit


def mutate_removals(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """An `if` without `else`, a re-assignment, a call or a loop exit is removed; `return f(x)` → `return x`."""
    if isinstance(node, cst.IndentedBlock):
        yield from _remove_statements(node, tree)
    if isinstance(node, cst.Return) and isinstance(node.value, cst.Call):
        yield from _unwrap(node.value, tree)


def _remove_statements(block: cst.IndentedBlock, tree: SourceTree) -> Iterator[TextEdit]:
    for statement in block.body:
        name = _removable(statement)
        if name:
            start, end = tree.line_span(statement)
            indent = tree.data[start : tree.span(statement)[0]]
            yield TextEdit(name, start, end, b"" if len(block.body) > 1 else indent + b"pass\n")


def _removable(statement: cst.CSTNode) -> str:
    """Kind of the removal, or nothing. Removing the first assignment of a name is no bug but a NameError."""
    if isinstance(statement, cst.If):
        return "" if statement.orelse else "remove_if"
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
        return ""
    small = statement.body[0]
    if isinstance(small, cst.AugAssign) or (isinstance(small, cst.Assign) and _updates(small)):
        return "remove_assignment"
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call | cst.Await):
        return "remove_call"
    return "remove_exit" if isinstance(small, cst.Break | cst.Continue) else ""


def _updates(assignment: cst.Assign) -> bool:
    """Does it change something that lives on: an attribute, an item, or a name that it also reads?"""
    targets = [target.target for target in assignment.targets]
    if all(isinstance(target, cst.Attribute | cst.Subscript) for target in targets):
        return True
    names = {target.value for target in targets if isinstance(target, cst.Name)}
    return bool(names & _names(assignment.value))


def _names(node: cst.CSTNode) -> set[str]:
    own = {node.value} if isinstance(node, cst.Name) else set()
    return own.union(*(_names(child) for child in node.children))


def _unwrap(call: cst.Call, tree: SourceTree) -> Iterator[TextEdit]:
    """`return sorted(x, key=f)` → `return x`."""
    if call.args and not call.args[0].star and call.args[0].keyword is None:
        value = call.args[0].value
        if not isinstance(value, cst.GeneratorExp | cst.NamedExpr):
            yield tree.replace("unwrap_return", call, tree.text(value))
