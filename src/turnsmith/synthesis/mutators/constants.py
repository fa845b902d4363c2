"""Constant bugs: a number, a text or a truth value is slightly wrong."""

from collections.abc import Iterator

import libcst as cst

from turnsmith.synthesis.mutators.base import SourceTree, TextEdit


def mutate_constants(node: cst.CSTNode, tree: SourceTree) -> Iterator[TextEdit]:
    """`3` → `4` and `2`, `"abc"` → `"ab"`, `True` → `False`."""
    if isinstance(node, cst.Integer):
        yield from _change_integer(node, tree)
    elif isinstance(node, cst.SimpleString):
        yield from _change_string(node, tree)
    elif isinstance(node, cst.Name) and node.value in ("True", "False"):
        yield tree.replace("truth", node, b"False" if node.value == "True" else b"True")


def _change_integer(node: cst.Integer, tree: SourceTree) -> Iterator[TextEdit]:
    value = node.evaluated_value
    yield tree.replace("integer", node, str(value + 1).encode())
    if value > 0:
        yield tree.replace("integer", node, str(value - 1).encode())


def _change_string(node: cst.SimpleString, tree: SourceTree) -> Iterator[TextEdit]:
    """Only plain literals: in a prefixed, escaped or triple-quoted one the last character may be part of something."""
    if node.prefix or "\\" in node.value or len(node.quote) == 3:
        return
    text = node.raw_value
    yield tree.replace("text", node, f"{node.quote}{text[:-1] if text else ' '}{node.quote}".encode())
