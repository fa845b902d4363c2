"""Recognition of public data sets by the columns of their rows."""

from collections.abc import Collection
from functools import cache
from itertools import chain
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.tasks.sets.base import PublicSet
from turnsmith.tasks.sets.harbor import HARBOR
from turnsmith.tasks.sets.names import SETS
from turnsmith.tasks.sets.reading import FolderRows, RowFile, RowSource, find_row_files


def find_set(name: str) -> PublicSet:
    """Return the data set with a short name or an import path. Raises UsageError if there is none."""
    return SETS.load_instance(name, PublicSet)


@cache
def list_sets() -> tuple[PublicSet, ...]:
    """Load the built-in data sets, in the order in which a row's columns are compared with theirs."""
    return tuple(map(find_set, SETS.paths))


def find_rows(wanted: PublicSet, source: Path, split: str = "") -> list[RowSource]:
    """Find the row files of `split`, or task folders, in `source`. Raises UsageError if none is of the data set `wanted`."""
    for each in (wanted, *list_sets()):
        if each.folders and source.is_dir() and (folders := each.folders.find(source)):
            if each is not wanted:
                remedy = f"give `turnsmith tasks import {each.name} --from {source}`"
                raise UsageError(f"{source} holds folders of {each.name}, not rows of {wanted.name}: {remedy}")
            return [FolderRows(folders, each.folders.read)]
    if wanted is HARBOR:
        raise UsageError(f"{source} holds no Harbor task: give a folder with task.toml, or a folder of such folders")
    files = find_row_files(source, split)
    first = next((row.content for row in chain.from_iterable(files) if isinstance(row.content, dict)), {})
    check_set(wanted, first, source)
    return [*files]


def recognise(columns: Collection[str]) -> PublicSet | None:
    """Return the first data set whose identifying columns are all in `columns`; None if there is none."""
    return next((each for each in list_sets() if each.marks <= set(columns)), None)


def recognise_file(file: Path) -> str:
    """Return the data set name of a file's rows; empty if unknown. Raises UsageError if unreadable."""
    first = next((row.content for row in RowFile(file) if isinstance(row.content, dict)), {})
    found = recognise(first)
    return found.name if found else ""


def check_set(wanted: PublicSet, columns: Collection[str], source: Path | str) -> None:
    """Raise UsageError if rows with these columns are not of the data set `wanted`, and name the data set that they fit."""
    if wanted not in list_sets() and wanted.marks <= set(columns):
        return
    found = recognise(columns)
    if found and found is not wanted:
        remedy = f"give `turnsmith tasks import {found.name} --from {source}`"
        raise UsageError(f"the rows of {source} look like {found.name}, not like {wanted.name}: {remedy}")
    if not found:
        lacking = ", ".join(sorted(wanted.marks - set(columns)))
        remedy = f"give another file, or one of {', '.join(SETS.paths)}"
        raise UsageError(
            f"the rows of {source} are of no known data set ({wanted.name} needs the columns {lacking}): {remedy}"
        )
