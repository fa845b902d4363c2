"""Starting state of a mined task on disk: a commit's source tree, a Python environment, and a git history of one commit."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from turnsmith.environments.building import Environment
from turnsmith.environments.equipping import EnvironmentOptions, build_first_working
from turnsmith.git.history import GitHistory, find_date, find_version, read_snapshot
from turnsmith.git.layers import walk_merged
from turnsmith.git.one_commit import SYMLINK, TreeFile, read_tree_file, write_history
from turnsmith.synthesis.repositories import write_shared_layer

WORKDIR = "/testbed"
UNBUILT = "environment could not be built"


@dataclass(frozen=True)
class Base:
    """Starting state of a task on disk: layers of the working tree, and a Python environment."""

    commit: str
    """Hash of the single commit in the task's git history."""
    layers: tuple[Path, ...]
    """Folders that are stacked to make the working tree, lowest first."""
    environment: Path
    absent: tuple[str, ...]
    """Paths of files in the commit whose content the local git repository lacks."""

    def describe(self, folder: Path) -> dict[str, Any]:
        """Return the columns of the task that describe its starting state, with paths relative to `folder`."""
        return {
            "base_commit": self.commit,
            "workdir": WORKDIR,
            "layers": [layer.relative_to(folder).as_posix() for layer in self.layers],
            "environment": self.environment.relative_to(folder).as_posix(),
        }


@dataclass
class TreeStore:
    """Writer of source trees to layers of tasks. Files that are equal in several trees are hard links to one file."""

    folder: Path
    _written: dict[tuple[str, int], Path] = field(default_factory=dict)
    """(Digest of the content, mode) of a file → path of an equal file in an earlier tree."""

    def write(self, name: str, tree: Mapping[str, TreeFile]) -> Path:
        """Write a source tree to a folder for the task `name`, without a git history. Return the folder."""
        layer = self.folder / "layers" / name / "tree"
        shutil.rmtree(layer, ignore_errors=True)  # left by a killed process
        new: dict[str, TreeFile] = {}
        for path, file in tree.items():
            if not self._link(layer / path, file):
                new[path] = file
        write_shared_layer(layer, new)
        for path, file in new.items():
            self._written[_identify(file)] = layer / path
        return layer

    def _link(self, path: Path, file: TreeFile) -> bool:
        known = self._written.get(_identify(file))
        if known is None or file.mode == SYMLINK:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(known, path)
        except OSError:  # the earlier tree was removed, or the file system has no hard links
            return False
        return True


def _identify(file: TreeFile) -> tuple[str, int]:
    return hashlib.sha256(file.content).hexdigest(), file.mode


def complete_layers(
    layer: Path, tree: Mapping[str, TreeFile], environment: Environment
) -> tuple[tuple[Path, ...], str]:
    """Write a git history of one commit, which contains the source tree and the files that the environment's build added.

    Return all folders of the working tree, lowest first, and the hash of the commit.
    """
    built = read_layer(environment.layer)
    git = layer.with_name("git")
    shutil.rmtree(git, ignore_errors=True)
    commit = write_history(git / ".git", {**tree, **built})
    return ((layer, environment.layer, git) if built else (layer, git)), commit


def read_layer(layer: Path) -> dict[str, TreeFile]:
    """Read all files of a layer (a folder of a working tree): path → content and mode."""
    files = {}
    for path, place in walk_merged((layer,)):
        if place.is_symlink() or place.is_file():
            files[path] = read_tree_file(place)
    return files


async def make_base(
    store: TreeStore, name: str, history: GitHistory, commit: str, *, date: str, options: EnvironmentOptions
) -> Base:
    """Write a commit's tree and build its environment in a thread, which stops if the awaiting asyncio task is cancelled.

    `date` limits the versions of installed packages; "" means the commit's date. Raises BuildFailed, UsageError.
    """
    stopped = Event()

    def make() -> Base:
        snapshot = read_snapshot(history, commit)
        layer = store.write(name, snapshot.tree)
        environment = build_first_working(
            {path: file.content for path, file in snapshot.tree.items()},
            (layer,),
            WORKDIR,
            store.folder,
            date=date or find_date(history, commit),
            version=find_version(history, commit),
            options=options,
            stopped=stopped,
        )
        layers, base_commit = complete_layers(layer, snapshot.tree, environment)
        return Base(base_commit, layers, environment.folder, snapshot.absent)

    try:
        return await asyncio.to_thread(make)
    finally:
        stopped.set()
