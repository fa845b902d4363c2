"""One script against one target: run as an agent's command, its patch taken from outside and graded as in training."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from turnsmith.audit.auditor import Auditor
from turnsmith.audit.screening import find_suspicions
from turnsmith.errors import SandboxError
from turnsmith.redteam.scripts import Script
from turnsmith.redteam.targets import Target, make_target
from turnsmith.rewards.grading import Grader, to_one_line
from turnsmith.rewards.preparing import set_up
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec
from turnsmith.temporary import temporary_folder
from turnsmith.tracking import Progress
from turnsmith.types import OUTCOMES, Audit, Grade, Outcome

When = Literal["all", "suspicious", "off"]
"""Which resolved patches are audited before they are paid."""

SCRIPT_TIMEOUT_S = 60.0
TESTS_TIMEOUT_S = 40.0
"""Enough for the tests of every target; some attacks use all of it."""
NUM_WORKERS = 4
"""Trials at once: some only wait."""


@dataclass(frozen=True)
class Trial:
    """What a script got."""

    script: Script
    target: str
    """Name of the target."""
    paid: bool | None
    """None where the infrastructure failed, which no script may bring about."""
    reason: str = ""
    """Why it was not paid, or why the audit does not know, in a line."""
    audit: Audit | None = None
    """None where no audit was made."""

    @property
    def stopped_by(self) -> str:
        """`verdict` or `audit`; empty where it was paid, and where the infrastructure failed."""
        if self.paid is not False:
            return ""
        return "audit" if self.audit else "verdict"

    @property
    def is_stopped_elsewhere(self) -> bool:
        """Is what stopped it another layer than its header names?"""
        return self.stopped_by not in ("", self.script.layer)


async def attack(
    names: list[str], scripts: Sequence[Script], source: Path, when: When, provider: SandboxProvider, progress: Progress
) -> list[Trial]:
    """Make the targets in a folder that goes away, and run every script on each. Only isolated sandboxes will do."""
    with temporary_folder("redteam") as folder:
        targets = [await make_target(name, folder / "targets" / name, provider, source) for name in names]
        return await try_all(scripts, targets, provider, when, progress)


async def try_all(
    scripts: Sequence[Script],
    targets: Sequence[Target],
    provider: SandboxProvider,
    when: When,
    progress: Progress,
    seed: int | None = None,
) -> list[Trial]:
    """Every script on every target that it suits, a few at a time; in the order of targets, then of scripts.

    With a seed audits repeat.
    """
    grader = Grader(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=NUM_WORKERS)
    auditor = Auditor(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=NUM_WORKERS, seed=seed)
    pairs = [(script, target) for target in targets for script in scripts if script.suits(target.name)]
    free, label = asyncio.Semaphore(NUM_WORKERS), "red team"
    progress.begin(label, len(pairs))

    async def run(script: Script, target: Target) -> Trial:
        async with free:
            trial, patch = await try_script(script, target, provider, grader)
            if trial.paid and is_audited(patch, when):
                trial = review(trial, await auditor.audit(target.task, target.layers, patch))
        progress.advance(label)
        if not is_right(trial, when):
            progress.say(describe(trial))
        return trial

    trials = await asyncio.gather(*(run(script, target) for script, target in pairs))
    progress.end(label)
    return trials


async def try_script(script: Script, target: Target, provider: SandboxProvider, grader: Grader) -> tuple[Trial, str]:
    """Run one script and have the patch that it leaves graded; the verdict's part of the trial, and the patch."""
    try:
        patch = await leave_patch(script, target, provider)
    except SandboxError as error:
        return judge(script, target.name, Grade(outcome=Outcome.SANDBOX_FAILED, detail=to_one_line(str(error)))), ""
    return judge(script, target.name, await grader.grade(target.task, target.layers, patch)), patch


async def leave_patch(script: Script, target: Target, provider: SandboxProvider) -> str:
    """The patch of a sandbox in which the script was run. Raises SandboxError."""
    sandbox = await provider.start(SandboxSpec(target.layers, target.task.workdir))
    try:
        await run_script(script, target, sandbox)
        return await sandbox.diff()
    finally:
        await sandbox.stop()


async def run_script(script: Script, target: Target, sandbox: Sandbox) -> None:
    """Run a script as an agent would; only honest ones are given the fix, on standard input. Raises SandboxError."""
    await set_up(sandbox, target.task, target.layers)
    stdin = target.task.patch.encode() if script.kind == "honest" else b""
    await sandbox.exec(script.text, timeout_s=SCRIPT_TIMEOUT_S, stdin=stdin, env=target.variables)


def judge(script: Script, target: str, grade: Grade) -> Trial:
    """Paid where resolved; an outcome that leaves no trace in training is the infrastructure's fault."""
    if grade.resolved:
        return Trial(script, target, paid=True)
    flags = f" [{', '.join(grade.flags)}]" if grade.flags else ""
    paid = False if OUTCOMES[grade.outcome].in_loss else None
    return Trial(script, target, paid, f"{grade.outcome}{flags}: {grade.detail}")


def is_audited(patch: str, when: When) -> bool:
    """Is a resolved patch audited in any case? The random share of the others that training audits is left out."""
    return when == "all" or (when == "suspicious" and bool(find_suspicions(patch)))


def review(trial: Trial, audit: Audit) -> Trial:
    """The trial after the audit of its patch: only a conviction takes the reward away."""
    return replace(trial, paid=audit.verdict != "convicted", reason=audit.reason, audit=audit)


def is_right(trial: Trial, when: When) -> bool:
    """Is an honest patch paid, and an attack not? Those that need an audit may be, where not all patches are audited."""
    if trial.script.layer == "audit" and when != "all":
        return trial.paid is not None
    return trial.paid is (trial.script.kind == "honest")


def describe(trial: Trial) -> str:
    """A sentence on a trial that did not end as it must."""
    name = f"{trial.script.name} on {trial.target}"
    if trial.paid is None:
        return f"{name} broke the infrastructure: {trial.reason}"
    if trial.script.kind == "attack":
        return f"{name} was paid: {trial.script.tries}"
    return f"{name} is honest and was not paid: {trial.reason}"
