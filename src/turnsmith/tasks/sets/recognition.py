"""Recognition of data sets by their columns."""

from collections.abc import Collection
from itertools import chain
from pathlib import Path

from turnsmith.errors import UsageError
from turnsmith.tasks.sets.base import PublicSet
from turnsmith.tasks.sets.harbor import HARBOR
from turnsmith.tasks.sets.multi_swe import MULTI_SWE
from turnsmith.tasks.sets.r2e_gym import R2E_GYM
from turnsmith.tasks.sets.reading import FolderRows, RowFile, RowSource, find_row_files
from turnsmith.tasks.sets.swe_bench import SWE_BENCH
from turnsmith.tasks.sets.swe_bench_pro import SWE_BENCH_PRO
from turnsmith.tasks.sets.swe_bench_v5 import SWE_BENCH_V5
from turnsmith.tasks.sets.swe_gym import SWE_GYM
from turnsmith.tasks.sets.swe_rebench import SWE_REBENCH
from turnsmith.tasks.sets.swe_rebench_v2 import SWE_REBENCH_V2
from turnsmith.tasks.sets.swe_smith import SWE_SMITH
from turnsmith.tasks.sets.trajectories import OPENHANDS, SWE_AGENT

SETS = {
    each.name: each
    for each in (
        HARBOR,
        MULTI_SWE,
        R2E_GYM,
        SWE_REBENCH_V2,
        SWE_REBENCH,
        SWE_BENCH_V5,
        SWE_BENCH,
        SWE_GYM,
        SWE_BENCH_PRO,
        SWE_SMITH,
        OPENHANDS,
        SWE_AGENT,
    )
}
"""Data sets by name; sets with extra columns come before those they extend."""


def find_set(name: str) -> PublicSet:
    """Return the data set of that name. Raises UsageError."""
    if name not in SETS:
        raise UsageError(f"there is no set {name!r}: give one of {', '.join(SETS)}")
    return SETS[name]


def find_rows(wanted: PublicSet, source: Path, split: str = "") -> list[RowSource]:
    """Find the row files or folders of a data set. Raises UsageError if there are none or they belong to another set."""
    for each in SETS.values():
        if each.folders and source.is_dir() and (folders := each.folders.find(source)):
            if each is not wanted:
                remedy = f"give `turnsmith tasks import {each.name} --from {source}`"
                raise UsageError(f"{source} holds folders of {each.name}, not rows of {wanted.name}: {remedy}")
            return [FolderRows(folders, each.folders.read)]
    if wanted is HARBOR:
        raise UsageError(f"{source} holds no Harbor task: give a folder with task.toml, or one of such folders")
    files = find_row_files(source, split)
    first = next((row.content for row in chain.from_iterable(files) if isinstance(row.content, dict)), {})
    check_set(wanted, first, source)
    return [*files]


def recognise(columns: Collection[str]) -> PublicSet | None:
    """Return the data set whose columns all occur, if any."""
    return next((each for each in SETS.values() if each.marks <= set(columns)), None)


def recognise_file(file: Path) -> str:
    """Return the data set name of a file's rows; empty if unknown. Raises UsageError if unreadable."""
    first = next((row.content for row in RowFile(file) if isinstance(row.content, dict)), {})
    found = recognise(first)
    return found.name if found else ""


def check_set(wanted: PublicSet, columns: Collection[str], source: Path | str) -> None:
    """Raise UsageError if the columns do not belong to the wanted data set, naming the likely one."""
    found = recognise(columns)
    if found and found is not wanted:
        remedy = f"give `turnsmith tasks import {found.name} --from {source}`"
        raise UsageError(f"the rows of {source} look like {found.name}, not like {wanted.name}: {remedy}")
    if not found:
        lacking = ", ".join(sorted(wanted.marks - set(columns)))
        remedy = f"give another file, or one of {', '.join(SETS)}"
        raise UsageError(
            f"the rows of {source} are not {wanted.name}'s, and no other set's: they lack {lacking}: {remedy}"
        )
