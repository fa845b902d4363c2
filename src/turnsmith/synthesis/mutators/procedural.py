"""SWE-smith's procedural mutators, in four families: classes, control flow, removals, expressions."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise

import libcst as cst

from turnsmith.synthesis.mutators.base import Mutator, SourceTree, TextEdit, find_names
from turnsmith.synthesis.mutators.families import (
    OFF_BY_ONE,
    mutate_constants,
    mutate_operators,
    mutate_removals,
    negate,
    order_matters,
    swap_arguments,
)

COMPOUND = (cst.If, cst.For, cst.While, cst.With, cst.Try)
ORDERINGS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
RENAMED = {
    "remove_assignment": "remove_assignment",
    "remove_if": "remove_conditional",
    "unwrap_return": "remove_wrapper",
}
"""Name of a removal in `families` → name of SWE-smith's mutator for the same edit."""


def mutate_classes(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield the edits of SWE-smith's class mutators: `remove_base`, `remove_methods` and `shuffle_methods`."""
    if isinstance(node, cst.ClassDef):
        yield from remove_base(node, tree)
        yield from remove_methods(node, tree)
        yield from shuffle_methods(node, tree)


def remove_base(node: cst.ClassDef, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that remove a base class: `class A(B)` → `class A`; `class A(B, C)` → `class A(C)` and `class A(B)`."""
    spans = [tree.span(argument) for argument in (*node.bases, *node.keywords)]
    match node:
        case cst.ClassDef(lpar=cst.LeftParen() as left, rpar=cst.RightParen() as right) if len(spans) == 1:
            yield TextEdit("remove_base", tree.span(left)[0], tree.span(right)[1], b"")
        case cst.ClassDef(bases=bases):
            for here, after in list(pairwise(spans))[: len(bases)]:
                yield TextEdit("remove_base", here[0], after[0], b"")
            if len(bases) == len(spans) > 1:
                yield TextEdit("remove_base", spans[-2][1], spans[-1][1], b"")


def remove_methods(node: cst.ClassDef, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that remove a method which a base class or `object` may define too.

    Removal of any other method would only cause AttributeError.
    """
    for method in _list_methods(node):
        if node.bases or method.name.value.startswith("__"):
            yield tree.remove("remove_methods", tree.definition_span(method), is_alone=len(node.body.body) == 1)


def shuffle_methods(node: cst.ClassDef, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that exchange two methods if both have one name, or the second's decorators or defaults use the first."""
    for first, second in combinations(_list_methods(node), 2):
        names = set[str]().union(*(find_names(part) for part in (*second.decorators, second.params)))
        if first.name.value == second.name.value or first.name.value in names:
            yield from tree.exchange("shuffle_methods", tree.definition_span(first), tree.definition_span(second))


def _list_methods(node: cst.ClassDef) -> list[cst.FunctionDef]:
    return [statement for statement in node.body.body if isinstance(statement, cst.FunctionDef)]


def mutate_control(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield the edits of SWE-smith's control-flow mutators: `invert_if` and `shuffle_lines`."""
    yield from invert_if(node, tree)
    yield from shuffle_lines(node, tree)


def invert_if(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that exchange the branches of `if … else` or `a if b else c`, or negate an `if` without `else`."""
    match node:
        case cst.If(body=cst.IndentedBlock() as first, orelse=cst.Else(body=cst.IndentedBlock() as second)):
            yield from tree.exchange("invert_if", tree.block_span(first), tree.block_span(second))
        case cst.IfExp(body=first, orelse=second):
            yield from tree.exchange("invert_if", tree.span(first), tree.span(second))
        case cst.If(test=test):
            yield tree.replace("invert_if", test, negate(test, tree))


def shuffle_lines(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that exchange two neighbours, each an assignment, call, `del`, `yield`, `if`, loop, `with` or `try`."""
    if isinstance(node, cst.IndentedBlock):
        for before, after in pairwise(node.body):
            if _is_movable(before) and _is_movable(after):
                yield from tree.exchange("shuffle_lines", tree.line_span(before), tree.line_span(after))


def _is_movable(statement: cst.CSTNode) -> bool:
    match statement:
        case cst.SimpleStatementLine(body=parts):
            return all(_is_action(part) for part in parts)
        case _:
            return isinstance(statement, COMPOUND)


def _is_action(part: cst.CSTNode) -> bool:
    match part:
        case cst.Expr(value=value):
            return isinstance(value, cst.Call | cst.Await | cst.Yield)
        case _:
            return isinstance(part, cst.Assign | cst.AugAssign | cst.Del)


def mutate_by_removal(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield the edits of SWE-smith's removals: `remove_assignment`, `remove_conditional`, `remove_loop`, `remove_wrapper`."""
    for edit in mutate_removals(node, tree):
        if edit.name in RENAMED:
            yield replace(edit, name=RENAMED[edit.name])
    yield from remove_condition(node, tree)
    yield from remove_loop(node, tree)
    yield from remove_wrapper(node, tree)


def remove_condition(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that remove a condition: `[x for x in xs if x]` → `[x for x in xs]`, `a if b else c` → `a` and `c`."""
    match node:
        case cst.CompIf():
            start, end = tree.span(node)
            yield TextEdit("remove_conditional", len(tree.data[:start].rstrip()), end, b"")
        case cst.IfExp(body=body, orelse=orelse):
            yield tree.replace("remove_conditional", node, tree.text(body))
            yield tree.replace("remove_conditional", node, tree.text(orelse))


def remove_loop(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that remove a loop, or that run its body at most once: `while a:` → `if a:`."""
    match node:
        case cst.IndentedBlock(body=statements):
            for loop in statements:
                if isinstance(loop, cst.For | cst.While):
                    yield tree.remove("remove_loop", tree.line_span(loop), is_alone=len(statements) == 1)
        case cst.While(orelse=None) if not _has_exit(node.body):
            start, _ = tree.span(node)
            yield TextEdit("remove_loop", start, start + len(b"while"), b"if")


def _has_exit(node: cst.CSTNode) -> bool:
    """Return True if a node holds a `break` or `continue` that belongs to a loop around the node."""
    if isinstance(node, cst.For | cst.While | cst.FunctionDef | cst.ClassDef | cst.Lambda):
        return False
    return isinstance(node, cst.Break | cst.Continue) or any(map(_has_exit, node.children))


def remove_wrapper(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that remove `try` or `with`: `try: a() except B: c()` → `a()`; `with a: b()` → `b()`. Keep `with … as`."""
    match node:
        case cst.Try(body=cst.IndentedBlock() as body) | cst.TryStar(body=cst.IndentedBlock() as body):
            yield from _unwrap(node, body, tree)
        case cst.With(items=items, body=cst.IndentedBlock() as body) if not any(item.asname for item in items):
            yield from _unwrap(node, body, tree)


def _unwrap(node: cst.CSTNode, body: cst.IndentedBlock, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield the edit that replaces a compound statement by its body; none if dedenting changes a multi-line string."""
    (start, end), (first, last) = tree.line_span(node), tree.block_span(body)
    lines, outer, inner = tree.data[first:last].splitlines(keepends=True), tree.indent(start), tree.indent(first)
    if not any(quotes in tree.data[first:last] for quotes in (b'"""', b"'''")):
        dedented = [outer + line.removeprefix(inner) if line.startswith(inner) else line for line in lines]
        yield TextEdit("remove_wrapper", start, end, b"".join(dedented))


def mutate_expressions(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits of SWE-smith's expression mutators: `break_chain`, `change_constant`, `change_operator`, `swap_operands`."""
    yield from break_chain(node, tree)
    for edit in mutate_constants(node, tree):
        yield replace(edit, name="change_constant")
    yield from change_operator(node, tree)
    yield from swap_operands(node, tree)


def break_chain(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that shorten a chain: `a and b` → `a` and `b`, `a + b + c` → `a + c` and `a + b`, `a.b().c()` → `a.b()`."""
    match node:
        case cst.BooleanOperation(left=left, right=right):
            yield tree.replace("break_chain", node, tree.text(left))
            yield tree.replace("break_chain", node, tree.text(right))
        case cst.BinaryOperation(left=cst.BinaryOperation(left=first, lpar=[]) as left):
            yield tree.replace("break_chain", left, tree.text(first))
            yield tree.replace("break_chain", node, tree.text(left))
        case cst.Comparison(comparisons=[*_, before, last]):
            yield TextEdit("break_chain", tree.span(before.comparator)[1], tree.span(last.comparator)[1], b"")
        case cst.Call(func=cst.Attribute(value=cst.Call(func=cst.Attribute()) as before)):
            yield tree.replace("break_chain", node, tree.text(before))


def change_operator(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that change an operator: `a + b` → `a - b`, `a < b` → `a > b` and `a <= b`, `a and b` → `a or b`."""
    for edit in mutate_operators(node, tree):
        yield replace(edit, name="change_operator")
    if isinstance(node, cst.BaseCompOp) and (other := OFF_BY_ONE.get(tree.text(node))):
        yield tree.replace("change_operator", node, other)


def swap_operands(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """Yield edits that exchange operands or arguments: `a - b` → `b - a`, `a < b` → `b < a`, `f(a, b)` → `f(b, a)`."""
    match node:
        case cst.BinaryOperation(left=left, right=right) if order_matters(node):
            yield from tree.exchange("swap_operands", tree.span(left), tree.span(right))
        case cst.Comparison(left=left, comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)]):
            if isinstance(operator, ORDERINGS):
                yield from tree.exchange("swap_operands", tree.span(left), tree.span(right))
        case cst.Call():
            yield from swap_arguments("swap_operands", node, tree)


PROCEDURAL: dict[str, Mutator] = {
    "class": mutate_classes,
    "control": mutate_control,
    "remove": mutate_by_removal,
    "operator": mutate_expressions,
}
"""Name of each family of SWE-smith's procedural mutators → its mutator function."""
