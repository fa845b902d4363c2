"""The text of a test file with its syntax tree, and changes of it by position: what is not changed stays as it was written.

Under random names, code that knows a test by its name, its class or its file knows none of them.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from itertools import accumulate
from pathlib import PurePosixPath
from secrets import token_hex
from tokenize import NAME, generate_tokens

from turnsmith.rewards.sentinels import draw_path

Test = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Edit:
    """Another text for a span of characters."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Source:
    """A test file. Its tree raises SyntaxError, or RecursionError and the like, where Python could not read it either."""

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
        """Names that the file imports."""
        imports = [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        return {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}

    def span(self, node: ast.expr) -> tuple[int, int]:
        """First character of a node, and one past its last."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _offset(self, line: int, column: int) -> int:
        """Trees count columns in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def replace(self, node: ast.expr, text: str) -> Edit:
        return Edit(*self.span(node), text)

    def enclose(self, node: ast.expr, before: str, after: str) -> tuple[Edit, Edit]:
        start, end = self.span(node)
        return Edit(start, start, before), Edit(end, end, after)

    @cached_property
    def tests(self) -> dict[str, Test]:
        """`TestX::test_y` → its definition, the last where there are several."""
        return dict(_find_functions(self.tree.body, ""))


def _find_functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Test]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _find_functions(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, Test):
            yield prefix + node.name, node


def read_source(content: bytes) -> Source:
    """A file as Python reads it, if it is UTF-8. Raises UnicodeDecodeError."""
    return Source(content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n"))


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with all changes; they may not overlap."""
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def rename_words(text: str, names: Mapping[str, str]) -> str:
    """The text with other names for these, but in strings and comments."""
    starts = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
    edits = []
    for token in generate_tokens(StringIO(text).readline):
        if token.type == NAME and token.string in names:
            start = starts[token.start[0] - 1] + token.start[1]
            edits.append(Edit(start, start + len(token.string), names[token.string]))
    return apply_edits(text, edits)


@dataclass(frozen=True)
class Renaming:
    """Names that were drawn for one run."""

    files: Mapping[str, str]
    """File of expected tests → the file that stands for it, in the same folder."""
    names: Mapping[str, Mapping[str, str]]
    """File → its tests and classes → the names that stand for them."""

    def rename(self, function: str) -> str:
        """`a.py::TestX::test_y` → `test_0f3a.py::Test77c1::test_9b2e`; a name that its file does not define stays."""
        file, *parts = function.split("::")
        return "::".join([self.files[file], *(self.names[file].get(part, part) for part in parts)])

    def is_renamed(self, function: str) -> bool:
        file, *_, name = function.split("::")
        return name in self.names[file]

    def write(self, texts: Mapping[str, str]) -> dict[str, str]:
        """The files of a run: these texts under their new names, nothing in the place of the old ones."""
        return dict.fromkeys(texts, "") | {
            self.files[file]: rename_words(text, self.names[file]) for file, text in texts.items()
        }


def draw_renaming(sources: Mapping[str, Source], functions: Iterable[str]) -> Renaming:
    """New names for the functions, given as `file::TestX::test_y`, as far as their files define them."""
    files = {file: draw_path(PurePosixPath(file).parent) for file in sources}
    wanted = {
        file: {part for name in functions if name.startswith(f"{file}::") for part in name.split("::")[1:]}
        for file in files
    }
    return Renaming(files, {file: dict(_draw_names(source, wanted[file])) for file, source in sources.items()})


def _draw_names(source: Source, wanted: set[str]) -> Iterator[tuple[str, str]]:
    """In the order of the old ones, since unittest runs its tests by their names."""
    found = {prefix: set[str]() for prefix in ("Test", "test_")}
    for node in ast.walk(source.tree):
        if isinstance(node, Test | ast.ClassDef) and node.name in wanted and (prefix := _find_prefix(node)):
            found[prefix].add(node.name)
    for prefix, names in found.items():
        drawn = sorted(token_hex(4) for _ in names)
        yield from ((old, f"{prefix}{new}") for old, new in zip(sorted(names), drawn, strict=True))


def _find_prefix(node: Test | ast.ClassDef) -> str:
    """What makes pytest see it; nothing where only the settings of the project could tell."""
    if isinstance(node, Test):
        return "test_" if node.name.startswith("test") else ""
    is_unittest = any(ast.unparse(base).endswith("TestCase") for base in node.bases)
    return "Test" if is_unittest or node.name.startswith("Test") else ""
