"""Mutations as edits of source text, at positions from the syntax tree, so that all other formatting stays."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeGuard

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

from turnsmith.types.edits import replace_spans

Span = tuple[int, int]
"""Range of bytes in a source: first byte, and the byte after the last."""


@dataclass(frozen=True)
class TextEdit:
    """Replacement of `source[start:end]` (bytes) by `text`. `name` is the kind of bug.

    Task ids contain a hash of this object's repr, so the names of class and fields must not change.
    """

    name: str
    start: int
    end: int
    text: bytes


@dataclass(frozen=True)
class Mutation:
    """Possible bug in one function or class, as an edit of the module's source."""

    family: str
    """Family of the mutation, for example `operator`."""
    name: str
    """Kind of mutation within its family, for example `off_by_one`."""
    line: int
    """Number of the first changed line, from 1."""
    function: str
    """Dotted name of the changed function or class, for example `Stack.push`."""
    edit: TextEdit
    source: str = field(repr=False)

    def apply(self) -> str:
        """Return the module's source with the bug."""
        return apply_edits(self.source, [self.edit])

    @property
    def lines(self) -> range:
        """Return the numbers of the lines that the mutation changes."""
        return range(self.line, self.line + self.source.encode()[self.edit.start : self.edit.end].count(b"\n") + 1)

    @property
    def hash8(self) -> str:
        """Return eight hexadecimal digits that identify the mutation among all mutations of its module."""
        return hashlib.sha256(f"{self.function} {self.edit}".encode()).hexdigest()[:8]


def apply_edits(source: str, edits: Iterable[TextEdit]) -> str:
    """Apply edits that do not overlap to a source text."""
    return replace_spans(source.encode(), [(edit.start, edit.end, edit.text) for edit in edits]).decode()


class SourceTree:
    """Parsed module, with the range of bytes of each syntax node."""

    def __init__(self, source: str) -> None:
        """Parse a module. Raises libcst.ParserSyntaxError."""
        self.data = source.encode()
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        self.module = wrapper.module
        self._spans = wrapper.resolve(ByteSpanPositionProvider)

    def span(self, node: cst.CSTNode) -> Span:
        """Return the range of bytes of a node, including its own parentheses."""
        outer = (node.lpar[0], node.rpar[-1]) if _is_parenthesised(node) else (node, node)
        first, last = (self._spans[each] for each in outer)
        return first.start, last.start + last.length

    def text(self, node: cst.CSTNode) -> bytes:
        start, end = self.span(node)
        return self.data[start:end]

    def line_span(self, node: cst.CSTNode) -> Span:
        """Return the range of bytes of a statement's whole lines, including the last line break."""
        start, end = self.span(node)
        start = self.data.rfind(b"\n", 0, start) + 1
        if self.data[end - 1 : end] != b"\n":
            end = self.data.find(b"\n", end) + 1 or len(self.data)
        return start, end

    def definition_span(self, node: cst.FunctionDef) -> Span:
        """Return the range of bytes of a function's whole lines, including decorators."""
        first = node.decorators[0] if node.decorators else node
        return self.line_span(first)[0], self.line_span(node)[1]

    def block_span(self, block: cst.IndentedBlock) -> Span:
        """Return the range of bytes of a block's whole lines."""
        return self.line_span(block.body[0])[0], self.line_span(block.body[-1])[1]

    def replace(self, name: str, node: cst.CSTNode, text: bytes) -> TextEdit:
        """Make the edit that replaces a node and its parentheses by `text`; text with line breaks gets new parentheses."""
        if b"\n" in text and _is_parenthesised(node):
            text = b"(" + text + b")"
        return self.edit(name, self.span(node), text)

    def remove(self, name: str, span: Span, *, is_alone: bool) -> TextEdit:
        """Make the edit that removes whole lines, or replaces them by `pass` if they are the only statement of a block."""
        start, end = span
        return TextEdit(name, start, end, self.indent(start) + b"pass\n" if is_alone else b"")

    def indent(self, start: int) -> bytes:
        """Return the indentation of the line that starts at `start`."""
        line = self.data[start : self.data.find(b"\n", start)]
        return line[: len(line) - len(line.lstrip())]

    def exchange(self, name: str, first: Span, second: Span) -> Iterator[TextEdit]:
        """Yield the edit that exchanges the texts of two ranges, the first before the second; none if the texts are equal."""
        before, after = self.data[slice(*first)], self.data[slice(*second)]
        if before != after:
            yield self.edit(name, (first[0], second[1]), after + self.data[first[1] : second[0]] + before)

    def edit(self, name: str, span: Span, text: bytes) -> TextEdit:
        """Make an edit, with spaces if two words would otherwise join: removing `-` from `return-x` gives `return x`."""
        start, end = span
        left = b" " if _would_join(self.data[start - 1 : start], text[:1]) else b""
        right = b" " if _would_join(text[-1:], self.data[end : end + 1]) else b""
        return TextEdit(name, start, end, left + text + right)


def find_names(node: cst.CSTNode) -> set[str]:
    """Find all names in a syntax node, including names of attributes."""
    own = {node.value} if isinstance(node, cst.Name) else set[str]()
    return own.union(*(find_names(child) for child in node.children))


def _is_parenthesised(node: cst.CSTNode) -> TypeGuard[cst.BaseExpression]:
    return isinstance(node, cst.BaseExpression) and bool(node.lpar)


def _would_join(left: bytes, right: bytes) -> bool:
    return all(byte.isalnum() or byte == b"_" or byte > b"\x7f" for byte in (left, right))


Mutator = Callable[[cst.CSTNode, SourceTree], Iterator[TextEdit]]
"""Function that yields the edits which insert a bug at a syntax node: a class, or a node inside a function."""
