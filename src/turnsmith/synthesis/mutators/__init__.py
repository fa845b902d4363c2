"""Mutators that put bugs into Python source, by families. One bug is one mutation.

Only classes, and the bodies and default values of functions, are changed. Docstrings, annotations, decorators, imports
and the text of raised errors stay: failing tests could not ask anyone to repair them. Makers of tasks import
`find_mutations`. A mutator sees one module and knows no tests.
"""

from collections.abc import Iterator, Mapping

import libcst as cst

from turnsmith.synthesis.mutators.base import Mutation, Mutator, SourceTree
from turnsmith.synthesis.mutators.classes import mutate_classes
from turnsmith.synthesis.mutators.control import mutate_control
from turnsmith.synthesis.mutators.families import FAMILIES
from turnsmith.synthesis.mutators.operators import mutate_expressions
from turnsmith.synthesis.mutators.removal import mutate_by_removal

__all__ = ["FAMILIES", "PROCEDURAL", "Mutation", "Mutator", "find_mutations"]

PROCEDURAL: dict[str, Mutator] = {
    "class": mutate_classes,
    "control": mutate_control,
    "remove": mutate_by_removal,
    "operator": mutate_expressions,
}
"""The families of SWE-smith's procedural bugs, thirteen mutators in all."""

DECLARATIONS = {cst.Global, cst.Nonlocal, cst.Import, cst.ImportFrom}
UNTOUCHED = {cst.Annotation, cst.Decorator, cst.Raise, cst.TypeParameters, *DECLARATIONS}
BLANK = {cst.SimpleWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.ParenthesizedWhitespace, cst.Comma, cst.Dot}
"""Half of all nodes, and nothing in them to break."""


def find_mutations(source: str, families: Mapping[str, Mutator] = FAMILIES) -> list[Mutation]:
    """Every bug of these families that could be put into a module, in the order of the source.

    Raises libcst.ParserSyntaxError.
    """
    tree = SourceTree(source)
    return [
        Mutation(family, edit.name, 1 + tree.data.count(b"\n", 0, edit.start), function, edit, source)
        for node, function in _walk(tree.module, scope=())
        for family, mutate in families.items()
        for edit in mutate(node, tree)
    ]


def _walk(node: cst.CSTNode, scope: tuple[str, ...], inside: bool = False) -> Iterator[tuple[cst.CSTNode, str]]:
    """Classes and nodes inside functions, parents first, each with the dotted name of its class or function."""
    if type(node) in UNTOUCHED or type(node) in BLANK or _is_docstring(node):
        return
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        scope, inside = (*scope, node.name.value), inside or isinstance(node, cst.FunctionDef)
    if inside or isinstance(node, cst.ClassDef):
        yield node, ".".join(scope)
    for child in node.children:
        yield from _walk(child, scope, inside)


def _is_docstring(node: cst.CSTNode) -> bool:
    """Any bare text statement counts."""
    return isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString | cst.ConcatenatedString)
