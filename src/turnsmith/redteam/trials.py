"""One script against one target: run as an agent's command, its patch taken from outside and graded as in training."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from turnsmith.errors import SandboxError
from turnsmith.redteam.scripts import Script
from turnsmith.redteam.targets import Target
from turnsmith.rewards.grading import Grader, to_one_line
from turnsmith.rewards.preparing import set_up
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec
from turnsmith.tracking import Progress
from turnsmith.types import OUTCOMES, Grade, Outcome

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
    stopped_by: str
    """`verdict` or `audit`; empty where it was paid, and where the infrastructure failed."""
    reason: str
    """The verdict or the audit in a line; empty where it was paid."""

    @property
    def is_right(self) -> bool:
        """Was an honest script paid, or an attack not?"""
        return self.paid is (self.script.kind == "honest")

    @property
    def is_stopped_elsewhere(self) -> bool:
        """Is what stopped it another layer than its header names?"""
        return self.stopped_by not in ("", self.script.layer)


async def try_all(
    scripts: Sequence[Script], targets: Sequence[Target], provider: SandboxProvider, progress: Progress
) -> list[Trial]:
    """Every script on every target that it suits, a few at a time; in the order of targets, then of scripts."""
    grader = Grader(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=NUM_WORKERS)
    pairs = [(script, target) for target in targets for script in scripts if script.suits(target.name)]
    free, label = asyncio.Semaphore(NUM_WORKERS), "red team"
    progress.begin(label, len(pairs))

    async def run(script: Script, target: Target) -> Trial:
        async with free:
            trial = await try_script(script, target, provider, grader)
        progress.advance(label)
        if not trial.is_right:
            progress.say(describe(trial))
        return trial

    trials = await asyncio.gather(*(run(script, target) for script, target in pairs))
    progress.end(label)
    return trials


async def try_script(script: Script, target: Target, provider: SandboxProvider, grader: Grader) -> Trial:
    """Run one script and have the patch that it leaves graded."""
    try:
        patch = await leave_patch(script, target, provider)
        grade = await grader.grade(target.task, target.layers, patch)
    except SandboxError as error:
        grade = Grade(outcome=Outcome.SANDBOX_FAILED, detail=to_one_line(str(error)))
    return judge(script, target.name, grade)


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
        return Trial(script, target, True, "", "")
    flags = f" [{', '.join(grade.flags)}]" if grade.flags else ""
    reason = f"{grade.outcome}{flags}: {grade.detail}"
    if not OUTCOMES[grade.outcome].in_loss:
        return Trial(script, target, None, "", reason)
    return Trial(script, target, False, "verdict", reason)


def describe(trial: Trial) -> str:
    """A sentence on a trial that did not end as it must."""
    name = f"{trial.script.name} on {trial.target}"
    if trial.paid is None:
        return f"{name} broke the infrastructure: {trial.reason}"
    if trial.script.kind == "attack":
        return f"{name} was paid: {trial.script.tries}"
    return f"{name} is honest and was not paid: {trial.reason}"
