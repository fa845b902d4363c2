"""The layers of a task: one clean tree that all bugs of a repository share, and one small layer per bug.

The layer of a bug holds the changed files and a `.git` of one commit, the buggy tree. The clean text lies below it, where the
stacked tree hides it. Where bugs are many, what their histories have in common lies in a layer between the two, one for all bugs
of the same files: of these files it holds nothing.
"""

import difflib
import hashlib
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from turnsmith.git.one_commit import EXECUTABLE, SYMLINK, Tree, TreeFile, make_history, write_folder
from turnsmith.runs.new_folders import building
from turnsmith.synthesis.bugs import Bug


@dataclass(frozen=True)
class Repository:
    """A clean tree on disk, ready for bugs."""

    name: str
    """E.g. `toolz-1.0.0`; begins the ids of its tasks."""
    tree: Tree
    folder: Path
    """The folder of the task file; layers are written under `layers/` in it."""

    @property
    def layer(self) -> Path:
        return self.folder / "layers" / self.name


@dataclass(frozen=True)
class Candidate:
    """One bug in one repository, its layer written, that has yet to prove itself; what proves itself becomes a task."""

    repository: Repository
    bug: Bug
    instance_id: str
    """E.g. `toolz-1.0.0.swap.1f3a9c04`."""
    layers: tuple[Path, ...]
    base_commit: str

    @property
    def layer(self) -> Path:
        """Its own."""
        return self.layers[-1]


def to_tree(texts: Mapping[str, str]) -> dict[str, TreeFile]:
    """`{"src/a.py": "x = 1\\n"}` as a tree of regular files."""
    return {path: TreeFile(text.encode()) for path, text in texts.items()}


def write_shared_layer(folder: Path, tree: Tree) -> None:
    """Write the clean tree, without history."""
    for name, file in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == SYMLINK:
            path.symlink_to(file.content.decode())
        else:
            path.write_bytes(file.content)
            path.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def write_bug_layer(folder: Path, tree: Tree, changed: Mapping[str, bytes], known: Collection[str] = ()) -> str:
    """Write what a bug changes and the history of the buggy tree; returns the base commit. Some 5 ms for 20 files.

    `known` are git objects, by their paths in `.git`, that a layer below holds.
    """
    buggy = {path: TreeFile(content, tree[path].mode) for path, content in changed.items()}
    write_shared_layer(folder, buggy)
    return write_folder(folder / ".git", make_history({**tree, **buggy}), known)


def write_objects(folder: Path, tree: Tree, paths: Collection[str]) -> frozenset[str]:
    """Write, unless it is there, what the histories of all trees have in common that differ in these files; returns its names."""
    others = {path: TreeFile(b"", tree[path].mode) for path in paths}
    # An empty file in place of each: no object of the clean one, nor of a folder above it, is among them.
    common = make_history(tree).objects.keys() & make_history({**tree, **others}).objects.keys()
    if not folder.exists():
        with building(folder) as new:
            history = make_history(tree)
            write_folder(new / ".git", history, {*history.objects, *history.files} - common)
    return frozenset(common)


def write_repository(name: str, tree: Tree, folder: Path) -> Repository:
    """Write the shared layer of a repository under the folder of the task file."""
    repository = Repository(name, tree, folder)
    write_shared_layer(repository.layer, tree)
    return repository


def name_bug(repository: Repository, bug: Bug) -> str:
    """The id of its task."""
    return f"{repository.name}.{bug.family}.{bug.hash8}"


def write_candidate(repository: Repository, bug: Bug, *, is_one_of_many: bool = False) -> Candidate:
    """Write the layer of one bug; of one of many, without what their histories have in common."""
    instance_id = name_bug(repository, bug)
    layers, known = [repository.layer], frozenset[str]()
    if is_one_of_many:
        names = hashlib.sha256("\n".join(sorted(bug.changes)).encode()).hexdigest()[:8]
        layers.append(repository.folder / "layers" / f"{repository.name}.objects.{names}")
        known = write_objects(layers[-1], repository.tree, bug.changes)
    layers.append(repository.folder / "layers" / instance_id)
    shutil.rmtree(layers[-1], ignore_errors=True)  # what a killed process left
    changed = {path: after.encode() for path, (_, after) in bug.changes.items()}
    base_commit = write_bug_layer(layers[-1], repository.tree, changed, known)
    return Candidate(repository, bug, instance_id, tuple(layers), base_commit)


def make_patch(path: str, before: str, after: str) -> str:
    """The git patch of one file, both texts given whole."""
    # `splitlines` would split at form feeds, too, which to git are characters like any other.
    lines = difflib.unified_diff([*StringIO(before)], [*StringIO(after)], f"a/{path}", f"b/{path}")
    body = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return f"diff --git a/{path} b/{path}\n{body}"
