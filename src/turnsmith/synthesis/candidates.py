"""A candidate is a bug written to disk that has yet to prove itself; what proves itself becomes a task."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from turnsmith.synthesis.mutators import Mutation
from turnsmith.synthesis.repositories import write_bug_layer, write_shared_layer
from turnsmith.tasks.history import Tree


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
    """One bug in one repository, its layer written."""

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
