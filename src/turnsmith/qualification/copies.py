"""Other copies of what the patches of a task bring: in the working tree, in the system around it, in archives of both."""

import fnmatch
import glob
import posixpath
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from turnsmith.qualification import searches
from turnsmith.qualification.archives import ARCHIVES, unpack
from turnsmith.qualification.fragments import Fragment, added_lines, changed_paths, make_fragments, strip_lines
from turnsmith.qualification.record import Leak, LeakKind
from turnsmith.rewards.cases import Case
from turnsmith.rewards.preparing import set_up
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec
from turnsmith.types import Isolation, Task

COPY_SHARE, MIN_COPY_LINES = 2 / 3, 5
"""Share of a file's distinct lines that another must hold to be a copy of it; of fewer lines there are no copies."""
MAX_QUOTE_CHARACTERS = 60
SOURCE_FOLDERS = ("src/", "lib/")
"""Folders of a tree that imports start from."""
IMPORT_FOLDERS = ("*/site-packages", "*/dist-packages")
"""Where modules of a single file are installed; packages are known by their name anywhere."""


@dataclass(frozen=True)
class SystemFiles:
    """What sandboxes of an image hold outside of the working trees."""

    texts: tuple[tuple[str, bytes], ...] = ()
    """Files, and members of archives, that hold a line which is looked for."""
    paths: tuple[str, ...] = ()
    """Files, and bytecode, that are imported by the name of one that a patch changes."""

    def find_leaks(self, task: Task) -> list[Leak]:
        """What of it gives a task away."""
        fragments = fragments_of(task)
        held = [leak for where, content in self.texts for leak in find_leak(where, content, fragments)]
        told = {leak.where for leak in held}
        return held + [leak for leak in find_installed(self.paths, task) if leak.where not in told]


async def look_into_system(provider: SandboxProvider, spec: SandboxSpec, tasks: Sequence[Task]) -> SystemFiles:
    """Look through all that a sandbox shows, for all tasks at once. Raises SandboxError.

    Where nothing is isolated there is nothing to prove: the agent can read the whole machine.
    """
    if provider.isolation == Isolation.NONE:
        return SystemFiles()
    sandbox, tree = await provider.start(spec), f"{spec.workdir}/"
    fragments = [fragment for task in tasks for fragment in fragments_of(task)]
    names = {name for task in tasks for path in changed_paths(task.patch) for name in _name_installed(path)}
    try:
        texts = [text async for text in _find_texts(sandbox, searches.SYSTEM, fragments)]
        paths = await searches.find_paths(sandbox, searches.SYSTEM, sorted(names))
    finally:
        await sandbox.stop()
    return SystemFiles(
        tuple(text for text in texts if not text[0].startswith(tree)),
        tuple(path for path in paths if not path.startswith(tree)),
    )


async def look_into_tree(case: Case) -> list[Leak]:
    """Copies in the tree as the agent gets it. Raises SetupFailed, SandboxError.

    Lines of the fix may stand in the tree by right, in a function that was written twice. A file of the same kind counts only
    where it is a copy of the changed one; in any other, such as a patch, a fragment is enough.
    """
    fragments = fragments_of(case.task)
    sandbox = await case.provider.start(SandboxSpec(case.layers, case.task.workdir, image=case.task.image))
    try:
        await set_up(sandbox, case.task, case.layers)
        texts = [text async for text in _find_texts(sandbox, searches.TREE, fragments)]
        originals = {each.path: await _read_original(sandbox, each.path, case.task) for each in fragments}
    finally:
        await sandbox.stop()
    found = list[Leak]()
    for where, content in texts:
        path, kind, lines = where.removeprefix("./"), posixpath.splitext(where)[1], strip_lines(content)
        others = [each for each in fragments if each.path != path]
        telling = [
            each for each in others if posixpath.splitext(each.path)[1] != kind or is_copy(lines, originals[each.path])
        ]
        found += find_leak(path, content, telling)
    return found


def fragments_of(task: Task) -> list[Fragment]:
    """Those of both patches."""
    return [*make_fragments(task.patch, LeakKind.GOLD_PATCH), *make_fragments(task.test_patch, LeakKind.TEST_PATCH)]


async def _find_texts(sandbox: Sandbox, where: str, fragments: Iterable[Fragment]) -> AsyncIterator[tuple[str, bytes]]:
    """Texts that hold the longest line of some fragment: files, and members of archives. Raises SandboxError."""
    anchors = {fragment.anchor for fragment in fragments}
    if not anchors:
        return
    for path in await searches.find_texts(sandbox, where, anchors):
        for content in await _read(sandbox, path):
            yield path, content
    for path in await searches.find_paths(sandbox, where, [f"*{ending}" for ending in ARCHIVES]):
        for content in await _read(sandbox, path):
            for member, inner in unpack(path, content):
                if not anchors.isdisjoint(strip_lines(inner)):
                    yield member, inner


async def _read(sandbox: Sandbox, path: str) -> list[bytes]:
    """The content, or nothing where it is gone or too large to be read."""
    try:
        return [await sandbox.read(path)]
    except OSError:
        return []


async def _read_original(sandbox: Sandbox, path: str, task: Task) -> set[bytes]:
    """The lines of a file that a patch changes, those included that the patch adds."""
    added = "\n".join([*added_lines(task.patch, path), *added_lines(task.test_patch, path)])
    contents = [added.encode(errors="surrogateescape"), *await _read(sandbox, path)]
    return {line for content in contents for line in strip_lines(content)}


def is_copy(lines: Collection[bytes], original: set[bytes]) -> bool:
    """Does a file hold most of another's lines?"""
    return len(original) >= MIN_COPY_LINES and len(original.intersection(lines)) >= COPY_SHARE * len(original)


def find_leak(where: str, content: bytes, fragments: Iterable[Fragment]) -> Iterator[Leak]:
    """A leak where a content holds one of the fragments."""
    if found := next((fragment for fragment in fragments if fragment.is_in(content)), None):
        quote = repr(found.anchor.decode(errors="replace")[:MAX_QUOTE_CHARACTERS])
        yield Leak(kind=found.kind, where=where, what=f"what it makes of {found.path}: {quote}")


def find_installed(paths: Collection[str], task: Task) -> Iterator[Leak]:
    """Files, or bytecode, that are imported by the name of one that the gold patch changes."""
    for changed in changed_paths(task.patch):
        for path in (path for pattern in _name_installed(changed) for path in fnmatch.filter(paths, pattern)):
            yield Leak(kind=LeakKind.COPY, where=path, what=f"{changed} of this or another version of the project")


def _name_installed(path: str) -> list[str]:
    """Patterns of an installed file and of its bytecode: `src/a/b.py` → `*/a/b.py`, `*/a/b.pyc`, `*/a/__pycache__/b.*.pyc`."""
    folder, name = posixpath.split(glob.escape(path.removeprefix(next(filter(path.startswith, SOURCE_FOLDERS), ""))))
    places, stem = [f"*/{folder}"] if folder else IMPORT_FOLDERS, name.removesuffix(".py")
    names = [name, f"{stem}.pyc", f"__pycache__/{stem}.*.pyc"] if stem != name else [name]
    return [f"{place}/{each}" for place in places for each in names]
