"""Definitions of inherited and imported tests in other classes and files."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from turnsmith.audit.sources import ImportedName, Source

Place = tuple[str, str]
"""A file, and a name in it: `TestX::test_y`."""


def find_definition(sources: Mapping[str, Source], function: str) -> str:
    """Find the id under which a function is written: `b.py::TestB::test_y` → `a.py::TestA::test_y`.

    A function that these files do not define keeps its id.
    """
    file, _, name = function.partition("::")
    found = _find_function(sources, (file, name), frozenset()) if file in sources else None
    return "::".join(found or (file, name))


def _find_function(sources: Mapping[str, Source], place: Place, seen: frozenset[Place]) -> Place | None:
    """Find the place where a function is written: the place itself, or else the first that it comes from."""
    if place in seen:
        return None
    if place[1] in sources[place[0]].tests:
        return place
    found = (_find_function(sources, origin, seen | {place}) for origin in _find_origins(sources, place))
    return next(filter(None, found), None)


def _find_origins(sources: Mapping[str, Source], place: Place) -> Iterator[Place]:
    """List the same function in each base of its class, or in the file from which the class or the function is imported."""
    file, name = place
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
    """Find the file among these from which another imports a name; None if there is none."""
    path = f"{imported.module.replace('.', '/')}.py"
    if not imported.level:
        return next((each for each in sources if f"/{each}".endswith(f"/{path}")), None)
    folders = PurePosixPath(file).parents
    relative = str(folders[imported.level - 1] / path) if imported.level <= len(folders) else ""
    return relative if relative in sources else None


def find_imported(sources: Mapping[str, Source], file: str) -> set[str]:
    """Find all of these files from which a file imports names, directly or through others, with the file itself."""
    found, waiting = {file}, [file]
    while waiting:
        last = waiting.pop()
        targets = {find_file(sources, last, imported) for imported in sources[last].imports.values()}
        new = {target for target in targets if target} - found
        found |= new
        waiting += new
    return found
