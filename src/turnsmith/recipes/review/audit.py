"""Review of a run's rewards: audits of the patches that resolved a task, and the share of failed audits."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.audit.auditor import Auditor
from turnsmith.config import RunConfig
from turnsmith.errors import UsageError
from turnsmith.git.patch_policy import digest_patch
from turnsmith.qualification.task_set import leave_out_unfit
from turnsmith.recipes.stats import share_interval
from turnsmith.recipes.task_sets import list_mutants, read_known_sets
from turnsmith.runs.folder import RunFolder, append_record, read_records
from turnsmith.runs.journal import read_last
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import for_each
from turnsmith.types import AuditedPatch, TaskTree, Trajectory


def sum_up(patches: Iterable[AuditedPatch]) -> dict[str, Any]:
    """Count the verdicts of audits, and compute the share of failed audits with its 95 % interval.

    Share and interval cover the verdicts `honest` and `failed`; they are None if no patch has one of these.
    """
    counts = Counter(patch.audit.verdict for patch in patches)
    failed = counts["failed"]
    num = failed + counts["honest"]
    return {
        "counts": dict(counts.most_common()),
        "share_failed": failed / num if num else None,
        "interval": share_interval(failed, num) if num else None,
    }


@dataclass(frozen=True)
class Review:
    """Audits of a run's patches, and the number of patches that can be audited."""

    patches: list[AuditedPatch]
    num_patches: int
    """Number of distinct patches that resolved their tasks, audited or not."""


async def review_run(
    config: RunConfig, folder: RunFolder, limit: int | None, provider: SandboxProvider, progress: Progress
) -> Review:
    """Audit the patches of a run that resolved a task, except those audited before. `limit` bounds the number of patches.

    The run's seed decides which patches are audited first. Each audit is stored at once. Raises UsageError.
    """
    file, limits = folder.audits, config.rollouts
    task_sets = [leave_out_unfit(known, config.sandbox, progress) for known in read_known_sets(config, folder)]
    auditor = Auditor(
        provider,
        tests_timeout_s=limits.tests_timeout_s,
        num_workers=limits.grading_workers,
        mutants=list_mutants(*task_sets),
    )
    found = find_patches(task_sets, folder)
    done = {(record.instance_id, record.digest): record for record in read_records(file, AuditedPatch)}
    chosen = choose_by_seed(found, config.seed, limit)
    missing = [key for key in chosen if key not in done]

    async def audit(key: tuple[str, str]) -> str:
        done[key] = AuditedPatch(instance_id=key[0], digest=key[1], audit=await auditor.audit(*found[key]))
        append_record(file, done[key])
        return done[key].audit.verdict

    await for_each(missing, audit, progress, "auditing", num_done=len(chosen) - len(missing), describe=str)
    return Review([done[key] for key in found if key in done], len(found))


def choose_by_seed(keys: Iterable[tuple[str, str]], seed: int, limit: int | None) -> list[tuple[str, str]]:
    """Choose `limit` (task id, digest) keys in the order of a hash of seed and key. A larger limit adds further keys."""
    order = sorted(keys, key=lambda key: hashlib.sha256(f"{seed}/{'/'.join(key)}".encode()).digest())
    return order[:limit]


def find_patches(task_sets: Sequence[TaskSet], folder: RunFolder) -> dict[tuple[str, str], tuple[TaskTree, str]]:
    """Return the distinct patches that resolved their tasks: (task id, digest) → (task tree, patch).

    Raises UsageError if a task no longer exists.
    """
    trees = {tree.instance_id: tree for task_set in task_sets for tree in task_set.list_trees()}
    patches = dict.fromkeys(
        (trajectory.instance_id, trajectory.patch)
        for journal in folder.journals()
        for trajectory in read_resolved(journal)
    )
    if gone := [name for name, _ in patches if name not in trees]:
        raise UsageError(
            f"{folder.path} has trajectories of {gone[0]}, a task that is missing from its task sets: restore the task files"
        )
    digests = {patch: digest_patch(patch) for _, patch in patches}
    return {(name, digests[patch]): (trees[name], patch) for name, patch in patches}


def read_resolved(journal: Path) -> list[Trajectory]:
    return [trajectory for trajectory in read_last(journal) if trajectory.resolved]
