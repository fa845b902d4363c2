"""A candidate is a bug written to disk that has yet to prove itself; what proves itself becomes a task."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.rewards.testing import CLEAN_STATUSES, Suite, SuiteReport
from turnsmith.synthesis.issues import write_issue
from turnsmith.synthesis.mutators import Mutation
from turnsmith.synthesis.repositories import make_patch, write_bug_layer, write_shared_layer
from turnsmith.synthesis.validation import Validation
from turnsmith.tasks.history import Tree
from turnsmith.types import Task


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
    base_commit: str

    @property
    def layer(self) -> Path:
        return self.repository.folder / "layers" / self.instance_id

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
    instance_id = name_instance(repository.name, path, mutation)
    layer = repository.folder / "layers" / instance_id
    base_commit = write_bug_layer(layer, repository.tree, {path: mutation.apply().encode()})
    return Candidate(repository, path, mutation, instance_id, base_commit)


def name_instance(repository: str, path: str, mutation: Mutation) -> str:
    """E.g. `toolz-1.0.0.swap.1f3a9c04`."""
    digest = hashlib.sha256(f"{path} {mutation.hash8}".encode()).hexdigest()[:8]
    return f"{repository}.{mutation.family}.{digest}"


def to_task(
    candidate: Candidate,
    verdict: Validation,
    before: SuiteReport,
    suite: Suite,
    *,
    vagueness: float,
    created_by: str,
    meta: Mapping[str, Any],
) -> Task:
    """The task of a candidate that was kept, given the suite on the clean tree; `vagueness` is that of the issue text."""
    mutation = candidate.mutation
    expected = [*verdict.fail_to_pass, *verdict.pass_to_pass]
    return Task(
        instance_id=candidate.instance_id,
        repo=candidate.repository.name,
        base_commit=candidate.base_commit,
        problem_statement=write_issue(
            verdict.report, vagueness=vagueness, known_failures=before.with_status("failed", "error")
        ),
        FAIL_TO_PASS=verdict.fail_to_pass,
        PASS_TO_PASS=verdict.pass_to_pass,
        patch=make_patch(candidate.path, mutation.apply(), mutation.source),
        layers=[layer.relative_to(candidate.repository.folder).as_posix() for layer in candidate.layers],
        workdir=suite.workdir,
        test_command=suite.command,
        log_parser=suite.parser,
        created_by=created_by,
        meta={
            "family": mutation.family,
            "mutator": mutation.name,
            "path": candidate.path,
            "function": mutation.function,
            "line": mutation.line,
            CLEAN_STATUSES: {test: before.status(test) for test in expected if before.status(test) != "passed"},
            **meta,
        },
    )
