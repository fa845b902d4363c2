"""Source text of a test file, with its syntax tree. Edits replace parts of the text and keep the rest."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from itertools import accumulate
from tokenize import NAME, generate_tokens

from turnsmith.types import Edit
from turnsmith.types.edits import replace_spans

Test = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class ImportedName:
    """Name that a file imports by `from … import`."""

    module: str
    level: int
    """Number of dots before the module in a relative import; 0 in an absolute one."""
    name: str


@dataclass(frozen=True)
class Source:
    """Test file. `tree` raises SyntaxError, ValueError, RecursionError or MemoryError if Python cannot parse the text."""

    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self._lines)]

    @cached_property
    def imported(self) -> set[str]:
        imports = [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        return {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Return the offsets of a node's first character and of its end in the text."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """Convert a line and a column in bytes, as in syntax trees, to an offset in characters."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def replace(self, node: ast.expr, text: str) -> Edit:
        return Edit(*self.span(node), text)

    def enclose(self, node: ast.expr, before: str, after: str) -> tuple[Edit, Edit]:
        start, end = self.span(node)
        return Edit(start, start, before), Edit(end, end, after)

    @cached_property
    def imports(self) -> dict[str, ImportedName]:
        """Return imported name → its module and name there, for imports at the top level."""
        nodes = [node for node in self.tree.body if isinstance(node, ast.ImportFrom)]
        return {
            alias.asname or alias.name: ImportedName(node.module or "", node.level, alias.name)
            for node in nodes
            for alias in node.names
        }

    @cached_property
    def definitions(self) -> dict[str, Test | ast.ClassDef]:
        """Return name (`TestX` or `TestX::test_y`) → its last definition in the file."""
        return dict(_find_definitions(self.tree.body, ""))

    @cached_property
    def tests(self) -> dict[str, Test]:
        """Return name (`test_y` or `TestX::test_y`) → function, for all functions that the file defines."""
        return {name: node for name, node in self.definitions.items() if isinstance(node, Test)}


def _find_definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Test | ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _find_definitions(node.body, f"{prefix}{node.name}::")
        if isinstance(node, Test | ast.ClassDef):
            yield prefix + node.name, node


def read_source(content: bytes) -> Source:
    """Decode a UTF-8 test file and normalise its line ends, as Python does. Raises UnicodeDecodeError."""
    return Source(content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n"))


def rename_words(text: str, names: Mapping[str, str]) -> str:
    """Replace names in source code, except in strings and comments."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    edits = []
    for token in generate_tokens(StringIO(text).readline):
        if token.type == NAME and token.string in names:
            start = starts[token.start[0] - 1] + token.start[1]
            edits.append(Edit(start, start + len(token.string), names[token.string]))
    return replace_spans(text, edits)
