"""Mutators, which insert bugs into Python source. `families` holds small mutators, and `procedural` the mutators of SWE-smith.

Mutations change classes, and the bodies and default values of functions. Docstrings, annotations, decorators, imports and the
text of raised errors stay unchanged, because tests rarely detect such changes.
"""

from collections.abc import Iterator, Mapping

import libcst as cst

from turnsmith.synthesis.mutators.base import Mutation, Mutator, SourceTree
from turnsmith.synthesis.mutators.families import FAMILIES
from turnsmith.synthesis.mutators.procedural import PROCEDURAL

__all__ = ["FAMILIES", "PROCEDURAL", "Mutation", "Mutator", "find_mutations"]

DECLARATIONS = {cst.Global, cst.Nonlocal, cst.Import, cst.ImportFrom}
UNTOUCHED = {cst.Annotation, cst.Decorator, cst.Raise, cst.TypeParameters, *DECLARATIONS}
BLANK = {cst.SimpleWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.ParenthesizedWhitespace, cst.Comma, cst.Dot}
"""Types of syntax nodes that the search for mutations skips. They have no mutations and make up half of all nodes."""


def find_mutations(source: str, families: Mapping[str, Mutator] = FAMILIES) -> list[Mutation]:
    """Find all mutations of the given families in a module's source, in source order. Raises libcst.ParserSyntaxError."""
    tree = SourceTree(source)
    return [
        Mutation(family, edit.name, 1 + tree.data.count(b"\n", 0, edit.start), function, edit, source)
        for node, function in _walk(tree.module, scope=())
        for family, mutate in families.items()
        for edit in mutate(node, tree)
    ]


def _walk(node: cst.CSTNode, scope: tuple[str, ...], inside: bool = False) -> Iterator[tuple[cst.CSTNode, str]]:
    """Yield all classes, and all nodes inside functions, with the dotted name of their class or function; parents come first."""
    is_docstring = isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString | cst.ConcatenatedString)
    if type(node) in UNTOUCHED or type(node) in BLANK or is_docstring:
        return
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        scope, inside = (*scope, node.name.value), inside or isinstance(node, cst.FunctionDef)
    if inside or isinstance(node, cst.ClassDef):
        yield node, ".".join(scope)
    for child in node.children:
        yield from _walk(child, scope, inside)
