"""A look back at the rewards of a run: every patch that resolved a task is audited, and the share of lies estimated."""

import asyncio
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
from turnsmith.types import Audit, Record, TaskTree, Trajectory


class AuditedPatch(Record):
    """One patch of a run; identical ones of a task are one."""

    instance_id: str
    digest: str
    """SHA-256 of the patch."""
    audit: Audit


def sum_up(patches: Iterable[AuditedPatch]) -> dict[str, Any]:
    """Counts of the verdicts, and the share of lies among the patches that are honest or convicted, with its 95 % interval.

    Where there is no such patch, share and interval are None.
    """
    counts = Counter(patch.audit.verdict for patch in patches)
    lies, num = counts["convicted"], counts["honest"] + counts["convicted"]
    return {
        "counts": dict(counts.most_common()),
        "share_of_lies": lies / num if num else None,
        "interval": share_interval(lies, num) if num else None,
    }


@dataclass(frozen=True)
class Review:
    """The audits of a run."""

    patches: list[AuditedPatch]
    num_paid: int
    """Different patches that resolved their tasks; those without an audit were not asked for."""


async def review_run(
    config: RunConfig, folder: RunFolder, limit: int | None, provider: SandboxProvider, progress: Progress
) -> Review:
    """Audit the patches that were paid and have no audit yet, or those of them that are among the first `limit` by seed.

    Each is written down as it comes. Raises UsageError.
    """
    file, limits, label = folder.audits, config.rollouts, "auditing"
    task_sets = [leave_out_unfit(known, config.sandbox, progress) for known in read_known_sets(config, folder)]
    auditor = Auditor(
        provider,
        tests_timeout_s=limits.tests_timeout_s,
        num_workers=limits.grading_workers,
        mutants=list_mutants(*task_sets),
    )
    paid = find_paid(task_sets, folder)
    done = {(record.instance_id, record.digest): record for record in read_records(file, AuditedPatch)}
    chosen = choose_by_seed(paid, config.seed, limit)
    missing = [key for key in chosen if key not in done]
    progress.begin(label, len(chosen), len(chosen) - len(missing))

    async def audit(key: tuple[str, str]) -> None:
        done[key] = AuditedPatch(instance_id=key[0], digest=key[1], audit=await auditor.audit(*paid[key]))
        append_record(file, done[key])
        progress.advance(label, note=done[key].audit.verdict)

    async with asyncio.TaskGroup() as group:
        for key in missing:
            group.create_task(audit(key))
    progress.end(label)
    return Review([done[key] for key in paid if key in done], len(paid))


def choose_by_seed(keys: Iterable[tuple[str, str]], seed: int, limit: int | None) -> list[tuple[str, str]]:
    """Put patches into an order that only seed and patch decide, and take the first; a larger choice holds a smaller one."""
    order = sorted(keys, key=lambda key: hashlib.sha256(f"{seed}/{'/'.join(key)}".encode()).digest())
    return order[:limit]


def find_paid(task_sets: Sequence[TaskSet], folder: RunFolder) -> dict[tuple[str, str], tuple[TaskTree, str]]:
    """The different patches of the journals that resolved their tasks: id and digest → task tree, patch.

    Raises UsageError where a task is gone.
    """
    trees = {tree.instance_id: tree for task_set in task_sets for tree in task_set.list_trees()}
    patches = dict.fromkeys(
        (trajectory.instance_id, trajectory.patch) for journal in folder.journals() for trajectory in read_paid(journal)
    )
    if gone := [name for name, _ in patches if name not in trees]:
        raise UsageError(f"{folder.path} has trajectories of {gone[0]}, which is in none of its task sets any more")
    digests = {patch: digest_patch(patch) for _, patch in patches}
    return {(name, digests[patch]): (trees[name], patch) for name, patch in patches}


def read_paid(journal: Path) -> list[Trajectory]:
    """Read the trajectories that resolved their tasks and have not failed an audit since. Raises UsageError."""
    return [trajectory for trajectory in read_last(journal) if trajectory.resolved]
