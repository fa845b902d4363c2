"""Random names for the expected tests of one run: code that knows a test by name, class or file does not know these."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from secrets import token_hex

from turnsmith.audit.definitions import find_definition, find_imported
from turnsmith.audit.sources import Source, Test, rename_words
from turnsmith.grading.sentinels import draw_path


@dataclass(frozen=True)
class Renaming:
    """Names that were drawn for one run."""

    files: Mapping[str, str]
    """File of expected tests → the file that stands for it, in the same folder."""
    names: Mapping[str, Mapping[str, str]]
    """File → its tests and classes → the names that stand for them."""

    def rename(self, function: str) -> str:
        """Rename a function: `a.py::TestX::test_y` → `test_0f3a.py::Test77c1::test_9b2e`.

        A name that its file does not define stays.
        """
        file, *parts = function.split("::")
        return "::".join([self.files[file], *(self.names[file].get(part, part) for part in parts)])

    def is_renamed(self, function: str) -> bool:
        file, *_, name = function.split("::")
        return name in self.names[file]

    def write(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Write the files of a run: these texts under their new names, empty files under the old ones."""
        return dict.fromkeys(texts, "") | {
            self.files[file]: rename_words(text, self.names[file]) for file, text in texts.items()
        }


def draw_renaming(sources: Mapping[str, Source], functions: Iterable[str]) -> Renaming:
    """Draw new names for the functions, given as `file::TestX::test_y`, as far as these files define them.

    A name is the same in every file, so that files find what they import of each other.
    """
    files = {file: draw_path(PurePosixPath(file).parent) for file in sources}
    ids = {name for function in functions for name in (function, find_definition(sources, function))}
    names = dict(_draw_names(sources.values(), {part for name in ids for part in name.split("::")[1:]}))
    return Renaming(files, {file: _choose_names(sources, file, files, names) for file in files})


def _draw_names(sources: Iterable[Source], wanted: set[str]) -> Iterator[tuple[str, str]]:
    """Draw names in the order of the old ones, since unittest runs its tests by their names."""
    found = {prefix: set[str]() for prefix in ("Test", "test_")}
    for node in _walk_definitions(sources):
        if node.name in wanted and (prefix := _find_prefix(node)):
            found[prefix].add(node.name)
    for prefix, names in found.items():
        drawn = sorted(token_hex(4) for _ in names)
        yield from ((old, f"{prefix}{new}") for old, new in zip(sorted(names), drawn, strict=True))


def _choose_names(
    sources: Mapping[str, Source], file: str, files: Mapping[str, str], names: Mapping[str, str]
) -> dict[str, str]:
    """Choose the names that a file defines or imports, and the modules that it imports them from."""
    known = find_imported(sources, file)
    modules = {PurePosixPath(other).stem: PurePosixPath(files[other]).stem for other in known - {file}}
    defined = {node.name for node in _walk_definitions(sources[other] for other in known)}
    return modules | {old: new for old, new in names.items() if old in defined}


def _walk_definitions(sources: Iterable[Source]) -> Iterator[Test | ast.ClassDef]:
    nodes = (node for source in sources for node in ast.walk(source.tree))
    return (node for node in nodes if isinstance(node, Test | ast.ClassDef))


def _find_prefix(node: Test | ast.ClassDef) -> str:
    """Find the prefix by which pytest collects a test; empty where it depends on the settings of the project."""
    if isinstance(node, Test):
        return "test_" if node.name.startswith("test") else ""
    is_unittest = any(ast.unparse(base).endswith("TestCase") for base in node.bases)
    return "Test" if is_unittest or node.name.startswith("Test") else ""
