"""What a sandbox shows besides the layers: the system, the interpreter, its packages.

It is looked through once for all tasks of an image. Files that might hold a patch's text are found inside the sandbox; archives
are opened here.
"""

import posixpath
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass

from turnsmith.qualification import searches
from turnsmith.qualification.needles import changed_paths, strip_lines
from turnsmith.qualification.record import Leak, LeakKind, Machine
from turnsmith.qualification.scanning import find_needles, seek
from turnsmith.qualification.trees import ARCHIVES, find_entries, is_archive, unpack
from turnsmith.rewards.cases import Case
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec
from turnsmith.types import Task

DESCRIBE = "id -u; python -c 'import platform; print(platform.python_version())'; cat /proc/net/dev"
IMPORT_FOLDERS = {"site-packages", "dist-packages"}
SOURCE_FOLDERS = ("src/", "lib/")
"""Folders of a tree that imports start from."""
NOT_ISOLATED = "none"


@dataclass(frozen=True)
class Surroundings:
    """What was found around the tree."""

    machine: Machine
    texts: tuple[tuple[str, bytes], ...] = ()
    """Files, and members of archives, that hold a line which is looked for."""
    paths: tuple[str, ...] = ()
    """Files of the names that patches change."""

    def leaks_of(self, task: Task) -> list[Leak]:
        """What of it gives a task away."""
        sought = seek(task)
        held = [leak for where, content in self.texts for leak in find_needles(where, content, sought)]
        told = {leak.where for leak in held}
        return held + [leak for leak in find_installed(self.paths, task) if leak.where not in told]


async def look_around(provider: SandboxProvider, spec: SandboxSpec, tasks: Sequence[Task]) -> Surroundings:
    """Look through all that a sandbox shows, for all tasks at once. Raises SandboxError.

    Where nothing is isolated there is nothing to prove: the agent can read the whole machine.
    """
    sandbox, tree = await provider.start(spec), f"{spec.workdir}/"
    try:
        machine = await describe(sandbox)
        if sandbox.isolation == NOT_ISOLATED:
            return Surroundings(machine)
        names = {posixpath.basename(path) for task in tasks for path in changed_paths(task.patch)}
        found = await searches.find_names(sandbox, [*sorted(names), *(f"*{ending}" for ending in ARCHIVES)])
        paths = [path for path in found if not path.startswith(tree)]
        texts = [text async for text in find_texts(sandbox, paths, tasks) if not text[0].startswith(tree)]
    finally:
        await sandbox.stop()
    return Surroundings(machine, tuple(texts), tuple(path for path in paths if not is_archive(path)))


async def look_into_tree(case: Case) -> list[Leak]:
    """Is there more in the tree than its layers hold, which alone are scanned? Raises SandboxError."""
    task = case.task
    if case.provider.isolation == NOT_ISOLATED:
        return []
    sandbox = await case.provider.start(SandboxSpec(case.layers, task.workdir, image=task.image))
    try:
        shown = await searches.list_files(sandbox, task.workdir)
    finally:
        await sandbox.stop()
    unseen = sorted(set(shown).difference(f"{task.workdir}/{path}" for path in find_entries(case.layers)))
    what = f"{len(unseen)} files of the image in the tree, which nobody has looked through: bring them in a layer"
    return [Leak(kind=LeakKind.UNSEEN, where=unseen[0], what=what)] if unseen else []


async def describe(sandbox: Sandbox) -> Machine:
    """Facts, asked of the sandbox itself. Raises SandboxError."""
    uid, python, _, _, *interfaces = (await searches.ask(sandbox, DESCRIBE)).decode(errors="replace").splitlines()
    others = [line for line in interfaces if line.partition(":")[0].strip() != "lo"]
    return Machine(isolation=sandbox.isolation, uid=int(uid), has_network=bool(others), python=python)


async def find_texts(sandbox: Sandbox, paths: Sequence[str], tasks: Sequence[Task]) -> AsyncIterator[tuple[str, bytes]]:
    """Texts that hold the longest line of some needle: files, and in archives files of the same kinds as those that change."""
    needles = [needle for task in tasks for each in seek(task).values() for needle in each]
    anchors = {needle.anchor for needle in needles}
    if not anchors:
        return
    for path in await searches.find_texts(sandbox, anchors):
        for content in await _read(sandbox, path):
            yield path, content
    kinds = tuple({posixpath.splitext(needle.path)[1] for needle in needles})
    for path in filter(is_archive, paths):
        for content in await _read(sandbox, path):
            for member, inner in unpack(path, content):
                if member.endswith(kinds) and not anchors.isdisjoint(strip_lines(inner)):
                    yield member, inner


def find_installed(paths: Collection[str], task: Task) -> Iterator[Leak]:
    """Files that are imported by the name of one that the gold patch changes."""
    for changed in changed_paths(task.patch):
        module = changed.removeprefix(next(filter(changed.startswith, SOURCE_FOLDERS), ""))
        for path in paths:
            if path.endswith(f"/{module}") and ("/" in module or path.split("/")[-2] in IMPORT_FOLDERS):
                yield Leak(kind=LeakKind.COPY, where=path, what=f"{changed} of this or another version of the project")


async def _read(sandbox: Sandbox, path: str) -> list[bytes]:
    """The content, or nothing where it is gone or too large to be read."""
    try:
        return [await sandbox.read(path)]
    except OSError:
        return []
