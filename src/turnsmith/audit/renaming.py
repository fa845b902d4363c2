"""Random names for expected tests in one run, so that a patch cannot recognise tests by name, class or file."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from secrets import token_hex

from turnsmith.audit.sources import ImportedName, Source, Test, rename_words
from turnsmith.grading.sentinels import draw_path

Location = tuple[str, str]
"""File, and name of a class or function in the file: `TestX::test_y`."""


@dataclass(frozen=True)
class Renaming:
    """Random names that were drawn for one run of the tests."""

    files: Mapping[str, str]
    """File of expected tests → its new path, in the same folder."""
    names: Mapping[str, Mapping[str, str]]
    """File → mapping of old names of its tests, classes and modules to new names."""

    def rename(self, function: str) -> str:
        """Rename a function: `a.py::TestX::test_y` → `test_0f3a.py::Test77c1::test_9b2e`.

        Names that the function's file does not define stay the same.
        """
        file, *parts = function.split("::")
        return "::".join([self.files[file], *(self.names[file].get(part, part) for part in parts)])

    def is_renamed(self, function: str) -> bool:
        file, *_, name = function.split("::")
        return name in self.names[file]

    def write(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return path → text of files to write: renamed tests at new paths, empty files in place of the tests at old paths."""
        return dict.fromkeys(texts, "") | {
            self.files[file]: rename_words(text, self.names[file]) for file, text in texts.items()
        }


def draw_renaming(sources: Mapping[str, Source], functions: Iterable[str]) -> Renaming:
    """Draw new names for the functions `file::TestX::test_y` that the files in `sources` define.

    A name is the same in every file, so that imports between the files work.
    """
    files = {file: draw_path(PurePosixPath(file).parent) for file in sources}
    ids = {name for function in functions for name in (function, find_definition(sources, function))}
    names = dict(_draw_names(sources.values(), {part for name in ids for part in name.split("::")[1:]}))
    return Renaming(files, {file: _choose_names(sources, file, files, names) for file in files})


def _draw_names(sources: Iterable[Source], wanted: set[str]) -> Iterator[tuple[str, str]]:
    """Draw new names that sort like the old names, since unittest runs tests in the order of their names."""
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
    """Choose the new names of a file's own definitions, and of the names and modules that it imports."""
    known = find_imported(sources, file)
    modules = {PurePosixPath(other).stem: PurePosixPath(files[other]).stem for other in known - {file}}
    defined = {node.name for node in _walk_definitions(sources[other] for other in known)}
    return modules | {old: new for old, new in names.items() if old in defined}


def _walk_definitions(sources: Iterable[Source]) -> Iterator[Test | ast.ClassDef]:
    nodes = (node for source in sources for node in ast.walk(source.tree))
    return (node for node in nodes if isinstance(node, Test | ast.ClassDef))


def _find_prefix(node: Test | ast.ClassDef) -> str:
    """Return the prefix by which pytest recognises a test or class; empty if the project's settings decide."""
    if isinstance(node, Test):
        return "test_" if node.name.startswith("test") else ""
    is_unittest = any(ast.unparse(base).endswith("TestCase") for base in node.bases)
    return "Test" if is_unittest or node.name.startswith("Test") else ""


def find_definition(sources: Mapping[str, Source], function: str) -> str:
    """Find the definition of a test function. If `TestB` inherits `test_y`: `b.py::TestB::test_y` → `a.py::TestA::test_y`.

    A function that `sources` do not define keeps its id.
    """
    file, _, name = function.partition("::")
    found = _find_function(sources, (file, name), frozenset()) if file in sources else None
    return "::".join(found or (file, name))


def _find_function(sources: Mapping[str, Source], location: Location, seen: frozenset[Location]) -> Location | None:
    """Find the definition of a function: at `location` itself, or at the first location it is inherited or imported from."""
    if location in seen:
        return None
    if location[1] in sources[location[0]].tests:
        return location
    found = (_find_function(sources, origin, seen | {location}) for origin in _find_origins(sources, location))
    return next(filter(None, found), None)


def _find_origins(sources: Mapping[str, Source], location: Location) -> Iterator[Location]:
    """Yield locations from which a function may come: each base of its class, or the file from which it is imported."""
    file, name = location
    owner, _, method = name.rpartition("::")
    match sources[file].definitions.get(owner):
        case ast.ClassDef(bases=bases):
            yield from ((file, f"{base.id}::{method}") for base in bases if isinstance(base, ast.Name))
        case _:
            first, colons, rest = name.partition("::")
            imported = sources[file].imports.get(first)
            if imported and (target := find_file(sources, file, imported)):
                yield target, f"{imported.name}{colons}{rest}"


def find_file(sources: Mapping[str, Source], file: str, imported: ImportedName) -> str | None:
    """Find the file from which `file` imports a name; None if it is not in `sources`."""
    path = f"{imported.module.replace('.', '/')}.py"
    if not imported.level:
        return next((each for each in sources if f"/{each}".endswith(f"/{path}")), None)
    folders = PurePosixPath(file).parents
    relative = str(folders[imported.level - 1] / path) if imported.level <= len(folders) else ""
    return relative if relative in sources else None


def find_imported(sources: Mapping[str, Source], file: str) -> set[str]:
    """Return `file`, and all files in `sources` from which it imports names, directly or indirectly."""
    found, waiting = {file}, [file]
    while waiting:
        last = waiting.pop()
        targets = {find_file(sources, last, imported) for imported in sources[last].imports.values()}
        new = {target for target in targets if target} - found
        found |= new
        waiting += new
    return found
