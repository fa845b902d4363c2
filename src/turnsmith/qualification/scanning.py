"""The leak scan of a task's layers, from this machine: the history, and the text of the patches in every readable file.

What the base commit itself holds is the problem as it was given: text of the fix may stand there by right, in a function that
was written twice or in lines that the fix only moves. Of those files only one counts that is another copy of a file which the
patch changes, by two thirds of its lines. Anywhere else, in older commits, untracked files, archives and git's own files, one
needle is enough.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from turnsmith.qualification.bytecode import find_stale_bytecode
from turnsmith.qualification.git_stores import (
    OBJECTS,
    Objects,
    StoreUnreadable,
    find_history_leaks,
    list_objects,
    opened,
    read_objects,
)
from turnsmith.qualification.needles import Needle, changed_paths, make_needles, strip_lines
from turnsmith.qualification.record import Leak, LeakKind
from turnsmith.qualification.trees import find_files, unpack
from turnsmith.types import Task

COPY_SHARE = 2 / 3
"""Share of a file's distinct lines that another file must hold to be a copy of it."""
MIN_COPY_LINES = 5
"""A file of fewer lines has no copies worth the name."""
MAX_QUOTE_CHARACTERS = 60

Sought = Mapping[LeakKind, Sequence[Needle]]
"""The needles of both patches."""


def seek(task: Task) -> Sought:
    """What to look for."""
    patches = {LeakKind.GOLD_PATCH: task.patch, LeakKind.TEST_PATCH: task.test_patch}
    return {kind: make_needles(patch) for kind, patch in patches.items()}


def scan_layers(task: Task, layers: Sequence[Path]) -> list[Leak]:
    """All leaks of the stacked tree."""
    files, sought = find_files(layers), seek(task)
    with opened(files) as repository:
        try:
            objects = list_objects(repository, task.base_commit)
            found = [
                *find_history_leaks(files, objects, task.base_commit),
                *scan_objects(repository, objects, sought),
            ]
        except StoreUnreadable as error:
            objects, found = Objects({}, frozenset(), {}), [_unreadable(error)]
    return [
        *found,
        *scan_files(files, objects, sought),
        *find_stale_bytecode(files, changed_paths(task.patch)),
    ]


def _unreadable(error: StoreUnreadable) -> Leak:
    return Leak(kind=LeakKind.OBJECTS, where=OBJECTS, what=f"nothing can be proved: {error}")


def scan_objects(repository: Path, objects: Objects, sought: Sought) -> Iterator[Leak]:
    """Text of the patches in objects besides those of the base commit's own tree."""
    base = set(objects.base_files.values())
    for name, kind, content in read_objects(repository):
        if name not in base:
            yield from find_needles(f"git {kind} {name}", content, sought)


def scan_files(files: Mapping[str, Path], objects: Objects, sought: Sought) -> Iterator[Leak]:
    """Text of the patches in the files of the tree, git's own and archives included."""
    for path, file in sorted(files.items()):
        if path.startswith(OBJECTS):
            continue
        content = file.read_bytes()
        if is_of_base(path, content, objects):
            yield from find_copies(path, content, files, sought)
        else:
            yield from find_needles(path, content, sought)
        for member, inner in list(unpack(path, content))[1:]:
            yield from find_needles(member, inner, sought)


def is_of_base(path: str, content: bytes, objects: Objects) -> bool:
    """Does the base commit hold the file just so? Where there is no history, the tree is all there is to go by."""
    if not objects.base_files:
        return not path.startswith(".git/")
    return objects.base_files.get(path) == hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()


def find_needles(where: str, content: bytes, sought: Sought) -> Iterator[Leak]:
    """One leak for each of the two patches that a content gives away."""
    for kind, needles in sought.items():
        found = next((needle for needle in needles if needle.is_in(content)), None)
        if found:
            yield Leak(kind=kind, where=where, what=f"what it makes of {found.path}: {_quote(found)}")


def find_copies(path: str, content: bytes, files: Mapping[str, Path], sought: Sought) -> Iterator[Leak]:
    """Another copy of a file that a patch changes, with the change."""
    for needle in [needle for needles in sought.values() for needle in needles]:
        original = files.get(needle.path)
        if original and path != needle.path and needle.is_in(content) and is_copy(content, original.read_bytes()):
            yield Leak(kind=LeakKind.COPY, where=path, what=f"{needle.path} with the change: {_quote(needle)}")
            return


def is_copy(content: bytes, original: bytes) -> bool:
    """Does a file hold most of another's lines?"""
    lines = set(strip_lines(original))
    shared = lines.intersection(strip_lines(content))
    return len(lines) >= MIN_COPY_LINES and len(shared) >= COPY_SHARE * len(lines)


def _quote(needle: Needle) -> str:
    return repr(needle.anchor.decode(errors="replace")[:MAX_QUOTE_CHARACTERS])
