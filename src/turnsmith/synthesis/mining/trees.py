"""The layers of a mined task: the tree of its base commit, what building has added, and a history of one commit over both."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from turnsmith.environments.building import Environment
from turnsmith.git.layers import walk_merged
from turnsmith.git.one_commit import SYMLINK, TreeFile, read_tree_file, write_history
from turnsmith.synthesis.repositories import write_shared_layer


@dataclass
class TreeStore:
    """Writes trees below the folder of a task file; files that several have in common are one file on the disk."""

    folder: Path
    _written: dict[tuple[str, int], Path] = field(default_factory=dict)
    """From content and mode to a file of an earlier tree."""

    def write(self, name: str, tree: Mapping[str, TreeFile]) -> Path:
        """The layer of a tree, without history."""
        layer = self.folder / "layers" / name / "tree"
        shutil.rmtree(layer, ignore_errors=True)  # of a making that was killed
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
        except OSError:  # that tree has been removed, or the disk knows no hard links
            return False
        return True


def _identify(file: TreeFile) -> tuple[str, int]:
    return hashlib.sha256(file.content).hexdigest(), file.mode


def complete_layers(
    layer: Path, tree: Mapping[str, TreeFile], environment: Environment
) -> tuple[tuple[Path, ...], str]:
    """All layers of a task, lowest first, and its base commit: one commit of all that the lower ones hold."""
    built = read_layer(environment.layer)
    git = layer.with_name("git")
    shutil.rmtree(git, ignore_errors=True)
    commit = write_history(git / ".git", {**tree, **built})
    return ((layer, environment.layer, git) if built else (layer, git)), commit


def read_layer(layer: Path) -> dict[str, TreeFile]:
    """Every file of a folder."""
    files = {}
    for path, place in walk_merged((layer,)):
        if place.is_symlink() or place.is_file():
            files[path] = read_tree_file(place)
    return files
