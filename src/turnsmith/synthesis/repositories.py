"""Folders of tasks with inserted bugs, stacked as layers: a layer with the clean source tree, and a small layer per bug.

The layer of a bug holds the changed files, which hide the clean files in the layer below. Its `.git` has one commit, the tree
with the bug. If a package has many bugs, those that change the same files share a third layer. The third layer has the git
objects that are equal for all these bugs.
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
    """Source tree without bugs, stored as the lowest layer (folder of the working tree) of its tasks."""

    name: str
    """Name of the repository and prefix of its task ids, for example `toolz-1.0.0`."""
    tree: Tree
    folder: Path
    """Folder of the task file; its subfolder `layers/` holds the layers."""

    @property
    def layer(self) -> Path:
        return self.folder / "layers" / self.name


@dataclass(frozen=True)
class Candidate:
    """Bug whose files are written, but which no test has detected yet."""

    repository: Repository
    bug: Bug
    instance_id: str
    """Task id of the bug, for example `toolz-1.0.0.swap.1f3a9c04`."""
    layers: tuple[Path, ...]
    base_commit: str

    @property
    def layer(self) -> Path:
        """Return the top layer, which belongs to this bug alone."""
        return self.layers[-1]


def to_tree(texts: Mapping[str, str]) -> dict[str, TreeFile]:
    """Convert texts by path to a tree of regular files."""
    return {path: TreeFile(text.encode()) for path, text in texts.items()}


def write_shared_layer(folder: Path, tree: Tree) -> None:
    """Write the files of a tree to a folder, without a git history."""
    for name, file in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.mode == SYMLINK:
            path.symlink_to(file.content.decode())
        else:
            path.write_bytes(file.content)
            path.chmod(0o755 if file.mode == EXECUTABLE else 0o644)


def write_bug_layer(folder: Path, tree: Tree, changed: Mapping[str, bytes], known: Collection[str] = ()) -> str:
    """Write the folder of a bug: changed files and a one-commit git history (about 5 ms for 20 files). Return the commit.

    Git objects whose paths in `.git` are in `known` are not written: another folder of the same working tree holds them.
    """
    buggy = {path: TreeFile(content, tree[path].mode) for path, content in changed.items()}
    write_shared_layer(folder, buggy)
    return write_folder(folder / ".git", make_history({**tree, **buggy}), known)


def write_objects(folder: Path, tree: Tree, paths: Collection[str]) -> frozenset[str]:
    """Write those git objects of a tree that stay equal if the files `paths` change. Return the objects' paths in `.git`."""
    others = {path: TreeFile(b"", tree[path].mode) for path in paths}
    # Each file is emptied in the second tree, so the objects of these files and their folders are not common.
    common = make_history(tree).objects.keys() & make_history({**tree, **others}).objects.keys()
    if not folder.exists():
        with building(folder) as new:
            history = make_history(tree)
            write_folder(new / ".git", history, {*history.objects, *history.files} - common)
    return frozenset(common)


def write_repository(name: str, tree: Tree, folder: Path) -> Repository:
    """Write the source tree without bugs below `folder`; replace files that a killed process left there."""
    repository = Repository(name, tree, folder)
    shutil.rmtree(repository.layer, ignore_errors=True)
    write_shared_layer(repository.layer, tree)
    return repository


def name_bug(repository: Repository, bug: Bug) -> str:
    """Return the task id of a bug in a repository."""
    return f"{repository.name}.{bug.family}.{bug.hash8}"


def write_candidate(repository: Repository, bug: Bug, *, is_one_of_many: bool = False) -> Candidate:
    """Write the folder of one bug. If it is one of many, write git objects that other bugs share to a separate folder."""
    instance_id = name_bug(repository, bug)
    layers, known = [repository.layer], frozenset[str]()
    if is_one_of_many:
        names = hashlib.sha256("\n".join(sorted(bug.changes)).encode()).hexdigest()[:8]
        layers.append(repository.folder / "layers" / f"{repository.name}.objects.{names}")
        known = write_objects(layers[-1], repository.tree, bug.changes)
    layers.append(repository.folder / "layers" / instance_id)
    shutil.rmtree(layers[-1], ignore_errors=True)  # left by a killed process
    changed = {path: after.encode() for path, (_, after) in bug.changes.items()}
    base_commit = write_bug_layer(layers[-1], repository.tree, changed, known)
    return Candidate(repository, bug, instance_id, tuple(layers), base_commit)


def remove_rejected_layers(repository: Repository, kept: Collection[str]) -> None:
    """Remove the folders of bugs that did not become tasks; `kept` are the ids of the tasks."""
    for layer in repository.layer.parent.glob(f"{repository.name}.*"):
        if layer.name not in kept and not layer.name.startswith(f"{repository.name}.objects."):
            shutil.rmtree(layer)


def make_patch(path: str, before: str, after: str) -> str:
    """Make a git patch from the two texts of one file."""
    # Not `splitlines`: it also splits at form feeds, and git does not.
    lines = difflib.unified_diff([*StringIO(before)], [*StringIO(after)], f"a/{path}", f"b/{path}")
    body = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return f"diff --git a/{path} b/{path}\n{body}"
