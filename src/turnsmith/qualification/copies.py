"""Other copies of what the patches of a task bring: in the working tree, in the system around it, in archives of both."""

import posixpath
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from turnsmith.qualification import searches
from turnsmith.qualification.archives import ARCHIVES, unpack
from turnsmith.qualification.fragments import Fragment, added_lines, changed_paths, make_fragments, strip_lines
from turnsmith.qualification.record import Leak, LeakKind, Machine
from turnsmith.rewards.cases import Case
from turnsmith.rewards.preparing import set_up
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec
from turnsmith.types import Isolation, Task

DESCRIBE = "id -u; python -c 'import platform; print(platform.python_version())'; cat /proc/net/dev"
COPY_SHARE = 2 / 3
"""Share of a file's distinct lines that another file must hold to be a copy of it."""
MIN_COPY_LINES = 5
"""A file of fewer lines has no copies worth the name."""
MAX_QUOTE_CHARACTERS = 60
IMPORT_FOLDERS = {"site-packages", "dist-packages"}
SOURCE_FOLDERS = ("src/", "lib/")
"""Folders of a tree that imports start from."""

Fragments = Mapping[LeakKind, Sequence[Fragment]]
"""Those of both patches."""


@dataclass(frozen=True)
class SystemFiles:
    """What sandboxes of an image hold outside of the working trees."""

    machine: Machine
    texts: tuple[tuple[str, bytes], ...] = ()
    """Files, and members of archives, that hold a line which is looked for."""
    paths: tuple[str, ...] = ()
    """Files of the names that patches change, and their bytecode."""

    def find_leaks(self, task: Task) -> list[Leak]:
        """What of it gives a task away."""
        fragments = fragments_of(task)
        held = [leak for where, content in self.texts for leak in _find_fragments(where, content, fragments)]
        told = {leak.where for leak in held}
        return held + [leak for leak in find_installed(self.paths, task) if leak.where not in told]


async def look_into_system(provider: SandboxProvider, spec: SandboxSpec, tasks: Sequence[Task]) -> SystemFiles:
    """Look through all that a sandbox shows, for all tasks at once. Raises SandboxError.

    Where nothing is isolated there is nothing to prove: the agent can read the whole machine.
    """
    sandbox, tree = await provider.start(spec), f"{spec.workdir}/"
    try:
        machine = await describe(sandbox)
        if sandbox.isolation == Isolation.NONE:
            return SystemFiles(machine)
        texts = [text async for text in _find_texts(sandbox, searches.SYSTEM, tasks) if not text[0].startswith(tree)]
        names = sorted({name for task in tasks for path in changed_paths(task.patch) for name in _name_files(path)})
        paths = [
            path for path in await searches.find_names(sandbox, searches.SYSTEM, names) if not path.startswith(tree)
        ]
    finally:
        await sandbox.stop()
    return SystemFiles(machine, tuple(texts), tuple(paths))


async def look_into_tree(case: Case) -> list[Leak]:
    """Copies in the tree as the agent gets it. Raises SandboxError.

    Lines of the fix may stand in the tree by right, in a function that was written twice. A file of the same kind counts only
    where it is a copy of the changed one; in any other, such as a patch or an archive, a fragment is enough.
    """
    sandbox = await case.provider.start(SandboxSpec(case.layers, case.task.workdir, image=case.task.image))
    try:
        await set_up(sandbox, case.task, case.layers)
        texts = [text async for text in _find_texts(sandbox, searches.TREE, [case.task])]
        originals = {path: await _read_original(sandbox, path, case.task) for path in _list_changed(case.task)}
    finally:
        await sandbox.stop()
    fragments = fragments_of(case.task)
    return [
        leak for where, content in texts for leak in _judge(where.removeprefix("./"), content, fragments, originals)
    ]


async def describe(sandbox: Sandbox) -> Machine:
    """Facts, asked of the sandbox itself. Raises SandboxError."""
    uid, python, _, _, *interfaces = (await searches.ask(sandbox, DESCRIBE)).decode(errors="replace").splitlines()
    others = [line for line in interfaces if line.partition(":")[0].strip() != "lo"]
    return Machine(isolation=sandbox.isolation, uid=int(uid), has_network=bool(others), python=python)


def fragments_of(task: Task) -> Fragments:
    patches = {LeakKind.GOLD_PATCH: task.patch, LeakKind.TEST_PATCH: task.test_patch}
    return {kind: make_fragments(patch) for kind, patch in patches.items()}


def _list_changed(task: Task) -> list[str]:
    return [*changed_paths(task.patch), *changed_paths(task.test_patch)]


async def _find_texts(sandbox: Sandbox, where: str, tasks: Sequence[Task]) -> AsyncIterator[tuple[str, bytes]]:
    """Texts that hold the longest line of some fragment: files, and members of archives. Raises SandboxError."""
    anchors = {each.anchor for task in tasks for kind in fragments_of(task).values() for each in kind}
    if not anchors:
        return
    for path in await searches.find_texts(sandbox, where, anchors):
        for content in await _read(sandbox, path):
            yield path, content
    for path in await searches.find_names(sandbox, where, [f"*{ending}" for ending in ARCHIVES]):
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
    added = [line for patch in (task.patch, task.test_patch) for line in added_lines(patch, path)]
    contents = ["\n".join(added).encode(errors="surrogateescape"), *await _read(sandbox, path)]
    return {line for content in contents for line in strip_lines(content)}


def _judge(where: str, content: bytes, fragments: Fragments, originals: Mapping[str, set[bytes]]) -> Iterator[Leak]:
    """At most one leak for each patch that a file of the tree gives away."""
    kind, lines = posixpath.splitext(where)[1], set(strip_lines(content))
    telling = {
        patch: [
            fragment
            for fragment in each
            if fragment.path != where
            and (kind != posixpath.splitext(fragment.path)[1] or is_copy(lines, originals[fragment.path]))
        ]
        for patch, each in fragments.items()
    }
    yield from _find_fragments(where, content, telling)


def is_copy(lines: Collection[bytes], original: set[bytes]) -> bool:
    """Does a file hold most of another's lines?"""
    return len(original) >= MIN_COPY_LINES and len(original.intersection(lines)) >= COPY_SHARE * len(original)


def _find_fragments(where: str, content: bytes, fragments: Fragments) -> Iterator[Leak]:
    """One leak for each of the two patches that a content gives away."""
    for kind, each in fragments.items():
        if found := next((fragment for fragment in each if fragment.is_in(content)), None):
            quote = repr(found.anchor.decode(errors="replace")[:MAX_QUOTE_CHARACTERS])
            yield Leak(kind=kind, where=where, what=f"what it makes of {found.path}: {quote}")


def _name_files(path: str) -> list[str]:
    """Names of a file and of its bytecode: `a/b.py` → `b.py`, `b.pyc`, `b.*.pyc`."""
    name = posixpath.basename(path)
    return [name, f"{name}c", f"{name.removesuffix('.py')}.*.pyc"] if name.endswith(".py") else [name]


def find_installed(paths: Collection[str], task: Task) -> Iterator[Leak]:
    """Files, or bytecode, that are imported by the name of one that the gold patch changes."""
    for changed in changed_paths(task.patch):
        module = changed.removeprefix(next(filter(changed.startswith, SOURCE_FOLDERS), ""))
        for path in paths:
            source = to_source(path)
            if source.endswith(f"/{module}") and ("/" in module or source.split("/")[-2] in IMPORT_FOLDERS):
                yield Leak(kind=LeakKind.COPY, where=path, what=f"{changed} of this or another version of the project")


def to_source(path: str) -> str:
    """`pkg/__pycache__/a.cpython-311.pyc` and `pkg/a.pyc` → `pkg/a.py`; other paths stay as they are."""
    folder, name = posixpath.split(path)
    if not name.endswith(".pyc"):
        return path
    return posixpath.join(folder.removesuffix("/__pycache__"), f"{name.partition('.')[0]}.py")
