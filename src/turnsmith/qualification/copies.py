"""Search for copies of a task's gold patch and test patch, in its working tree and in the rest of a sandbox.

A search runs as the sandbox's user, so it finds only files that an agent could read. It opens no archives. Each search
must also find a file that it planted itself; otherwise it raises SandboxError.
"""

import fnmatch
import glob
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote

from turnsmith.errors import SandboxError
from turnsmith.grading.cases import Case
from turnsmith.qualification.fragments import Fragment, changed_paths, make_fragments, strip_lines
from turnsmith.qualification.record import Leak, LeakKind
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec, started
from turnsmith.sandboxes.setup import set_up
from turnsmith.types import Isolation, Task

COPY_SHARE, MIN_COPY_LINES = 2 / 3, 5
"""Minimum share of a changed file's distinct lines that a copy holds. Files with fewer than MIN_COPY_LINES have no copies."""
MAX_QUOTE_CHARACTERS = 60
IMPORT_FOLDERS = ("*/site-packages", "*/dist-packages")
"""Patterns of folders in which a top-level module `x.py` is looked for. A module of a package, `a/x.py`, may be anywhere."""
TIMEOUT_S = 900.0
PLANTED, FOUND = ".turnsmith-bait", ".turnsmith-answer"
"""Name of the planted file that a search must find, and of the file to which the search writes the found paths."""
TREE = "set -- .; "
"""Shell prefix that limits a search to the working tree."""
SYSTEM = (
    'set --; for top in /*; do case "$top" in /proc|/sys|/dev) ;; *) [ -h "$top" ] || set -- "$@" "$top";; esac; done; '
)
"""Shell prefix that searches all top-level folders except /proc, /sys, /dev and links."""
GREP = f'LC_ALL=C grep -rlsIZF -D skip --exclude={FOUND} -f {PLANTED} -- "$@" || [ $? -le 2 ]'
"""Search command. It skips unreadable files, for which grep exits with 2."""


@dataclass(frozen=True)
class SystemFiles:
    """Files of one image outside the working tree that may contain the fix or the hidden tests of a task."""

    texts: Mapping[str, bytes] = field(default_factory=dict)
    """Path → content of a file that contains the longest line of some fragment of a patch, and maybe the whole fragment."""
    paths: tuple[str, ...] = ()
    """Paths of installed modules, as source or bytecode, that are named like a module that a gold patch changes."""

    def find_leaks(self, task: Task) -> list[Leak]:
        """Find the files that contain parts of a task's gold patch or hidden tests."""
        fragments = fragments_of(task)
        held = [leak for where, content in self.texts.items() for leak in find_leak(where, content, fragments)]
        return [*held, *find_installed(self.paths, task)]


async def search_system(provider: SandboxProvider, spec: SandboxSpec, tasks: Sequence[Task]) -> SystemFiles:
    """Search the files of a new sandbox, except the working tree, for copies of all tasks' patches. Raises SandboxError.

    Without isolation, agents can read the whole machine, so a search would be pointless: return no files.
    """
    if provider.isolation == Isolation.NONE:
        return SystemFiles()
    anchors = {fragment.anchor for task in tasks for fragment in fragments_of(task)}
    names = {name for task in tasks for path in changed_paths(task.patch) for name in _name_installed(path)}
    tree = f"{spec.workdir}/"
    async with started(provider, spec) as sandbox:
        texts = [path for path in await find_texts(sandbox, SYSTEM, anchors) if not path.startswith(tree)]
        paths = [path for path in await find_paths(sandbox, SYSTEM, names) if not path.startswith(tree)]
        return SystemFiles({path: await _read(sandbox, path) for path in texts}, tuple(paths))


async def search_tree(case: Case) -> list[Leak]:
    """Search the working tree that the agent gets for copies of the task's patches. Raises SetupFailed, SandboxError.

    A fragment is some consecutive lines of a patch. A file with another suffix than the changed file, such as a stored
    patch, is a leak if it contains one fragment. A file with the same suffix must also contain most of the changed file.
    """
    fragments, found = fragments_of(case.task), list[Leak]()
    spec = SandboxSpec.of(case.tree)
    async with started(case.provider, spec) as sandbox:
        await set_up(sandbox, case.tree)
        originals = {path: await _read(sandbox, path) for path in {each.path for each in fragments}}
        for where in await find_texts(sandbox, TREE, {each.anchor for each in fragments}):
            path, content = where.removeprefix("./"), await _read(sandbox, where)
            others = [each for each in fragments if each.path != path]
            telling = [
                each
                for each in others
                if posixpath.splitext(each.path)[1] != posixpath.splitext(path)[1]
                or is_copy(content, originals[each.path] + each.text)
            ]
            found += find_leak(path, content, telling)
    return found


def fragments_of(task: Task) -> list[Fragment]:
    """List the fragments (some consecutive lines) of a task's gold patch and test patch, for which a search looks."""
    return [*make_fragments(task.patch, LeakKind.GOLD_PATCH), *make_fragments(task.test_patch, LeakKind.TEST_PATCH)]


def is_copy(content: bytes, original: bytes) -> bool:
    """Return True if `content` holds most lines of the file `original`."""
    wanted = set(strip_lines(original))
    return len(wanted) >= MIN_COPY_LINES and len(wanted.intersection(strip_lines(content))) >= COPY_SHARE * len(wanted)


def find_leak(where: str, content: bytes, fragments: Iterable[Fragment]) -> Iterator[Leak]:
    """Yield a leak if the content of a file holds one of the fragments."""
    if found := next((fragment for fragment in fragments if fragment.is_in(content)), None):
        quoted = repr(found.anchor.decode(errors="replace")[:MAX_QUOTE_CHARACTERS])
        yield Leak(kind=found.kind, where=where, what=f"content of {found.path} with the patch: {quoted}")


def find_installed(paths: Collection[str], task: Task) -> Iterator[Leak]:
    """Yield a leak for each installed file or bytecode with the module name of a file that the gold patch changes."""
    for changed in changed_paths(task.patch):
        for path in (path for pattern in _name_installed(changed) for path in fnmatch.filter(paths, pattern)):
            yield Leak(kind=LeakKind.COPY, where=path, what=f"{changed} of this or another version of the project")


def _name_installed(path: str) -> list[str]:
    """List the patterns of paths at which a module and its bytecode may be installed: `src/a/b.py` → `*/a/b.py`, `*/a/b.pyc`."""
    folder, name = posixpath.split(glob.escape(path.removeprefix("src/").removeprefix("lib/")))
    places, stem = [f"*/{folder}"] if folder else IMPORT_FOLDERS, name.removesuffix(".py")
    names = [name, f"{stem}.pyc", f"__pycache__/{stem}.*.pyc"] if stem != name else [name]
    return [f"{place}/{each}" for place in places for each in names]


async def find_texts(sandbox: Sandbox, where: str, lines: Collection[bytes]) -> list[str]:
    """Find the text files with one of the lines, in the folders that `where` sets: TREE or SYSTEM. Raises SandboxError."""
    return await _search(sandbox, where + GREP, b"\n".join(sorted(lines))) if lines else []


async def find_paths(sandbox: Sandbox, where: str, patterns: Collection[str]) -> list[str]:
    """Find the files whose paths match a pattern (`*` also matches slashes); `where` is TREE or SYSTEM. Raises SandboxError."""
    tests = " -o ".join(f"-path {quote(pattern)}" for pattern in [f"*/{PLANTED}", *sorted(patterns)])
    return await _search(sandbox, f'{where}find "$@" -type f \\( {tests} \\) -print0 2> /dev/null || [ $? -le 1 ]')


async def _search(sandbox: Sandbox, command: str, content: bytes = b"") -> list[str]:
    """Run a search command; return the found paths except the planted file. Raises SandboxError if that was not found."""
    try:
        await sandbox.write(PLANTED, content)
        result = await sandbox.exec(f"( {command} ) > {FOUND} && echo >> {FOUND}", timeout_s=TIMEOUT_S)
        *paths, end = (await sandbox.read(FOUND)).decode(errors="surrogateescape").split("\0")
    except OSError as error:
        raise SandboxError(f"the sandbox could not be searched: {error}") from None
    found = [path for path in paths if path.rpartition("/")[2] != PLANTED]
    if result.exit_code or len(found) == len(paths) or end != "\n":
        raise SandboxError(
            "the search for copies of the fix does not work: install GNU grep and find in the image or on this machine"
        )
    return found


async def _read(sandbox: Sandbox, path: str) -> bytes:
    """Read a file of a sandbox; empty if it is missing or too large."""
    try:
        return await sandbox.read(path)
    except OSError:
        return b""
