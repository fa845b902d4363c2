"""The layers of a task: one clean tree that all bugs of a repository share, and one small layer per bug.

The layer of a bug holds the changed files and a `.git` of one commit, the buggy tree. The clean text lies below it, where the
stacked tree hides it.
"""

import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from turnsmith.synthesis.mutators import Mutation
from turnsmith.tasks.history import EXECUTABLE, SYMLINK, Tree, TreeFile, write_history


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
    path: str
    """File that the bug is in."""
    mutation: Mutation
    instance_id: str
    """E.g. `toolz-1.0.0.swap.1f3a9c04`."""
    layer: Path
    base_commit: str

    @property
    def layers(self) -> tuple[Path, Path]:
        return self.repository.layer, self.layer


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


def write_bug_layer(folder: Path, tree: Tree, changed: Mapping[str, bytes]) -> str:
    """Write what a bug changes and the history of the buggy tree; returns the base commit. Some 5 ms for 20 files."""
    buggy = {path: TreeFile(content, tree[path].mode) for path, content in changed.items()}
    write_shared_layer(folder, buggy)
    return write_history(folder / ".git", {**tree, **buggy})


def write_repository(name: str, tree: Tree, folder: Path) -> Repository:
    """Write the shared layer of a repository under the folder of the task file."""
    repository = Repository(name, tree, folder)
    write_shared_layer(repository.layer, tree)
    return repository


def write_candidate(repository: Repository, path: str, mutation: Mutation) -> Candidate:
    """Write the layer of one bug."""
    digest = hashlib.sha256(f"{path} {mutation.hash8}".encode()).hexdigest()[:8]
    instance_id = f"{repository.name}.{mutation.family}.{digest}"
    layer = repository.folder / "layers" / instance_id
    base_commit = write_bug_layer(layer, repository.tree, {path: mutation.apply().encode()})
    return Candidate(repository, path, mutation, instance_id, layer, base_commit)


def make_patch(path: str, before: str, after: str) -> str:
    """The git patch of one file, both texts given whole."""
    # `splitlines` would split at form feeds, too, which to git are characters like any other.
    lines = difflib.unified_diff([*StringIO(before)], [*StringIO(after)], f"a/{path}", f"b/{path}")
    body = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return f"diff --git a/{path} b/{path}\n{body}"
