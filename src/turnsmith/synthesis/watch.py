"""Tasks from the bugs of real packages, watched."""

from collections import Counter
from pathlib import Path

from turnsmith.sandboxes.base import SandboxProvider
from turnsmith.synthesis.issues import IssueWriter
from turnsmith.synthesis.making import make_bugs
from turnsmith.synthesis.records import KEPT, BugTrial, MakingSpec
from turnsmith.tracking import Progress


async def make_package_bugs(
    spec: MakingSpec,
    out: Path,
    num_workers: int,
    write_issue: IssueWriter,
    provider: SandboxProvider,
    progress: Progress,
) -> None:
    """Make tasks in `out`, or go on there; packages of which none could be made are named. Raises UsageError, SandboxError."""
    label, reasons = "making tasks of packages", Counter[str]()
    progress.begin(label, len(spec.packages) * spec.num_tasks)

    def watch(trial: BugTrial) -> None:
        reasons[trial.reason] += 1
        progress.advance(label, int(trial.reason == KEPT), note=f"{reasons[KEPT]} of {reasons.total()} bugs survive")

    failures = await make_bugs(spec, out, provider, num_workers=num_workers, write_issue=write_issue, on_trial=watch)
    progress.end(label)
    for package, reason in failures.items():
        progress.say(f"{package}: {reason}")
