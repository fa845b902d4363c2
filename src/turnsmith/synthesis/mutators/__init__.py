"""Bugs for Python source, by families; one bug is one mutation.

Only the bodies and default values of functions are touched. Docstrings, annotations, decorators, imports and the text of
raised errors are left alone: nobody could be asked to repair them from failing tests.
"""

from collections.abc import Iterator

import libcst as cst

from turnsmith.synthesis.mutators.base import Mutation, SourceTree
from turnsmith.synthesis.mutators.families import FAMILIES

__all__ = ["FAMILIES", "Mutation", "find_mutations"]

DECLARATIONS = {cst.Global, cst.Nonlocal, cst.Import, cst.ImportFrom}
UNTOUCHED = {cst.Annotation, cst.Decorator, cst.Raise, cst.TypeParameters, *DECLARATIONS}
BLANK = {cst.SimpleWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.ParenthesizedWhitespace, cst.Comma, cst.Dot}
"""Half of all nodes, and nothing in them to break."""


def find_mutations(source: str) -> list[Mutation]:
    """Every bug that we know how to put into a module, in the order of the source. Raises libcst.ParserSyntaxError."""
    tree = SourceTree(source)
    return [
        Mutation(family, edit.name, 1 + tree.data.count(b"\n", 0, edit.start), function, edit, source)
        for node, function in _walk(tree.module, scope=())
        for family, mutate in FAMILIES.items()
        for edit in mutate(node, tree)
    ]


def _walk(node: cst.CSTNode, scope: tuple[str, ...], inside: bool = False) -> Iterator[tuple[cst.CSTNode, str]]:
    """Nodes inside functions, parents first, each with the dotted name of its function."""
    if type(node) in UNTOUCHED or type(node) in BLANK or _is_docstring(node):
        return
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        scope, inside = (*scope, node.name.value), inside or isinstance(node, cst.FunctionDef)
    if inside:
        yield node, ".".join(scope)
    for child in node.children:
        yield from _walk(child, scope, inside)


def _is_docstring(node: cst.CSTNode) -> bool:
    """Any bare text statement counts."""
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString | cst.ConcatenatedString)
