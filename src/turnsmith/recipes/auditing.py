"""A look back at the rewards of a run: every patch that resolved a task is audited, and the share of lies estimated."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from turnsmith.audit.auditor import Auditor
from turnsmith.config import TRAIN, RunConfig
from turnsmith.errors import UsageError
from turnsmith.journals import read_trajectories
from turnsmith.recipes.qualifying import leave_out_unfit
from turnsmith.recipes.task_sets import read_task_set
from turnsmith.runs import RunFolder, append_record, read_records
from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.stats import share_interval
from turnsmith.tracking import Progress
from turnsmith.types import Audit, Outcome, Record, Task

FILE_NAME = "audits.jsonl"
PAID = f'"outcome":"{Outcome.RESOLVED}"'
"""What the line of a trajectory holds that was paid."""


class AuditedPatch(Record):
    """One patch of a run; identical ones of a task are one."""

    instance_id: str
    digest: str
    """SHA-256 of the patch."""
    audit: Audit


@dataclass(frozen=True)
class Review:
    """What the audits of a run add up to."""

    patches: list[AuditedPatch]

    @property
    def counts(self) -> Counter[str]:
        return Counter(patch.audit.verdict for patch in self.patches)

    @property
    def num_conclusive(self) -> int:
        return self.counts["honest"] + self.counts["convicted"]

    @property
    def share(self) -> float | None:
        """Lies among the patches of which something can be said; None where there is none."""
        return self.counts["convicted"] / self.num_conclusive if self.num_conclusive else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The exact 95 % interval of the share."""
        return share_interval(self.counts["convicted"], self.num_conclusive) if self.num_conclusive else None

    def describe_counts(self) -> str:
        """`12 honest, 1 convicted`."""
        return ", ".join(f"{count} {verdict}" for verdict, count in self.counts.most_common())

    def to_json(self) -> dict[str, object]:
        """Counts, the share of lies, and every audit."""
        patches = [patch.model_dump() for patch in self.patches]
        return {"counts": self.counts, "share_of_lies": self.share, "interval": self.interval, "patches": patches}


async def review_run(config: RunConfig, folder: RunFolder, provider: SandboxProvider, progress: Progress) -> Review:
    """Audit every patch that was paid and has no audit yet; each is written down as it comes. Raises UsageError."""
    file, limits = folder.path / FILE_NAME, config.rollouts
    auditor = Auditor(provider, tests_timeout_s=limits.tests_timeout_s, num_workers=limits.grading_workers)
    paid = find_paid(config, folder, progress)
    done = {(record.instance_id, record.digest): record for record in read_records(file, AuditedPatch)}
    missing = [key for key in paid if key not in done]
    progress.begin("auditing", len(paid))
    progress.advance("auditing", len(paid) - len(missing))

    async def audit(key: tuple[str, str]) -> None:
        done[key] = AuditedPatch(instance_id=key[0], digest=key[1], audit=await auditor.audit(*paid[key]))
        append_record(file, done[key])
        progress.advance("auditing", note=Review([*done.values()]).describe_counts())

    async with asyncio.TaskGroup() as group:
        for key in missing:
            group.create_task(audit(key))
    progress.end("auditing")
    return Review([done[key] for key in paid])


def find_paid(
    config: RunConfig, folder: RunFolder, progress: Progress
) -> dict[tuple[str, str], tuple[Task, tuple[Path, ...], str]]:
    """The different patches of the journals that resolved their tasks: id and digest → task, layers, patch.

    Raises UsageError where a task is gone.
    """
    tasks = dict(read_tasks(config, folder, progress))
    patches = dict.fromkeys(
        (trajectory.instance_id, trajectory.patch)
        for journal in folder.journals()
        for trajectory in read_trajectories(journal, containing=PAID)
        if trajectory.resolved
    )
    gone = [name for name, _ in patches if name not in tasks]
    if gone:
        raise UsageError(f"{folder.path} has trajectories of {gone[0]}, which is in none of its task sets any more")
    return {(name, to_digest(patch)): (*tasks[name], patch) for name, patch in patches}


def read_tasks(
    config: RunConfig, folder: RunFolder, progress: Progress
) -> Iterable[tuple[str, tuple[Task, tuple[Path, ...]]]]:
    """Every task of the run by its id, as it was graded. Raises UsageError where a task set cannot be read."""
    for name, source in [(TRAIN, config.train_tasks), *config.eval_tasks.items()]:
        place = Path(source.path) if source and source.path else folder.task_set(name)
        if source and place.exists():
            task_set = leave_out_unfit(read_task_set(name, place, source.subset), config.sandbox, progress)
            yield from ((task.instance_id, (task, layers)) for task, layers in task_set.with_layers())


def to_digest(patch: str) -> str:
    return hashlib.sha256(patch.encode(errors="surrogatepass")).hexdigest()
