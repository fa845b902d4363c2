"""One script against one target: run as an agent's command, its patch taken from outside and graded by the real grader."""

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
"""Time enough for the tests of every target; attacks that use it up are part of the red team."""
NUM_WORKERS = 4
"""Trials at once: some only wait."""


@dataclass(frozen=True)
class Trial:
    """What a script got."""

    name: str
    kind: str
    """`attack` or `honest`."""
    task: str
    """Name of the target."""
    tried: str
    reward: float | None
    """1 where it was paid, 0 where it was not; None where the infrastructure failed, which no script may bring about."""
    stopped_by: str
    """The verdict in a line: the outcome, what was seen, which tests did not pass; nothing where it was paid."""

    @property
    def is_right(self) -> bool:
        return self.reward == (1.0 if self.kind == "honest" else 0.0)


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
    return Trial(script.name, script.kind, target.name, script.tried, to_reward(grade), name_cause(grade))


async def leave_patch(script: Script, target: Target, provider: SandboxProvider) -> str:
    """The patch of a sandbox in which the script was run. Raises SandboxError."""
    sandbox = await provider.start(SandboxSpec(target.layers, target.task.workdir))
    try:
        await run_script(script, target, sandbox)
        return await sandbox.diff()
    finally:
        await sandbox.stop()


async def run_script(script: Script, target: Target, sandbox: Sandbox) -> None:
    """Run a script as an agent would; only honest ones are handed the fix, on standard input. Raises SandboxError."""
    await set_up(sandbox, target.task)
    stdin = target.fix.encode() if script.kind == "honest" else b""
    await sandbox.exec(script.text, timeout_s=SCRIPT_TIMEOUT_S, stdin=stdin, env=target.variables)


def to_reward(grade: Grade) -> float | None:
    """1 or 0; None where the outcome leaves no trace in training."""
    return float(grade.resolved) if OUTCOMES[grade.outcome].in_loss else None


def name_cause(grade: Grade) -> str:
    """`tampered [sentinel]: …`; nothing where the tests were taken to pass."""
    flags = f" [{', '.join(grade.flags)}]" if grade.flags else ""
    return "" if grade.resolved else f"{grade.outcome}{flags}: {grade.detail}"


def describe(trial: Trial) -> str:
    """A sentence on a trial that did not end as it must."""
    if trial.reward is None:
        return f"{trial.name} on {trial.task} broke the infrastructure: {trial.stopped_by}"
    if trial.kind == "attack":
        return f"{trial.name} on {trial.task} was paid: {trial.tried}"
    return f"{trial.name} on {trial.task} is honest and was not paid: {trial.stopped_by}"
