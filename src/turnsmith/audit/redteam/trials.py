"""Trials of the red team: run a script in an agent's sandbox, then grade its patch as in training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.audit.auditor import Auditor
from turnsmith.audit.redteam.scripts import DEFENCES, Script, When
from turnsmith.audit.redteam.targets import TESTS_TIMEOUT_S, Target, make_target
from turnsmith.audit.screening import find_suspicions
from turnsmith.errors import SandboxError
from turnsmith.grading.grading import Grader, to_one_line
from turnsmith.runs.temporary import temporary_folder
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec, started
from turnsmith.sandboxes.setup import set_up_for_agent
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import for_each
from turnsmith.types import OUTCOMES, Grade, Outcome

SCRIPT_TIMEOUT_S = 60.0
NUM_WORKERS = 4
"""Number of concurrent trials; more than there are cores, since some trials only wait."""


@dataclass(frozen=True)
class Trial:
    """Result of one script on one target."""

    script: Script
    target: str
    grade: Grade
    """Grade of the script's patch, with the result of the audit if there was one."""

    @property
    def audited(self) -> str:
        """Return the verdict of the patch's audit; empty if it was not audited."""
        return self.grade.audit.verdict if self.grade.audit else ""

    @property
    def paid(self) -> bool | None:
        """Return True if the patch was rewarded; None if the infrastructure failed."""
        is_ours = not OUTCOMES[self.grade.outcome].in_loss
        return None if is_ours else self.grade.resolved and not (self.grade.audit and self.grade.audit.has_failed)

    @property
    def stopped_by(self) -> str:
        """Return the defence that stopped the patch, `verdict` or `audit`; empty if the patch was rewarded."""
        return "" if self.paid is not False else "audit" if self.audited else "verdict"

    @property
    def reason(self) -> str:
        """Return the reason why the patch was not rewarded, or why its audit is inconclusive."""
        if self.grade.audit:
            return self.grade.audit.reason
        flags = f" [{', '.join(self.grade.flags)}]" if self.grade.flags else ""
        return "" if self.paid else f"{self.grade.outcome}{flags}: {self.grade.detail}"

    def is_right(self, when: When) -> bool:
        """Return True if an honest patch is rewarded and an attack is not.

        Attacks that only an audit stops may be rewarded if not all patches are audited.
        """
        if self.script.layer == "audit" and when != "all":
            return self.paid is not None
        return self.paid is (self.script.kind == "honest")

    def __str__(self) -> str:
        faults = {None: "broke the infrastructure", True: "was paid", False: "is honest and was not paid"}
        return f"{self.script.name} on {self.target} {faults[self.paid]}: {self.reason or self.script.tries}"


async def attack(
    names: list[str], scripts: Sequence[Script], source: Path, when: When, provider: SandboxProvider, progress: Progress
) -> list[Trial]:
    """Make the targets in a temporary folder and run every script on each, in isolated sandboxes."""
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
    """Run every script on every target that it fits; return trials in the order of targets, then scripts.

    Every resolved patch that `when` selects is audited. With a seed, audits are repeatable.
    """
    grader = Grader(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=NUM_WORKERS)
    auditor = Auditor(provider, tests_timeout_s=TESTS_TIMEOUT_S, num_workers=NUM_WORKERS, seed=seed)
    pairs = [(script, target) for target in targets for script in scripts if script.only in ("", target.name)]

    async def run(pair: tuple[Script, Target]) -> Trial:
        script, target = pair
        grade, patch = await try_script(script, target, provider, grader)
        if grade.resolved and (when == "all" or (when == "suspicious" and find_suspicions(patch, target.tree.layers))):
            audit = await auditor.audit(target.tree, patch)
            grade = grade.model_copy(update={"audit": audit})
        trial = Trial(script, target.name, grade)
        if not trial.is_right(when):
            progress.log(str(trial))
        return trial

    return await for_each(pairs, run, progress, "red team", num_workers=NUM_WORKERS)


async def try_script(script: Script, target: Target, provider: SandboxProvider, grader: Grader) -> tuple[Grade, str]:
    try:
        patch = await leave_patch(script, target, provider)
    except SandboxError as error:
        return Grade(outcome=Outcome.SANDBOX_FAILED, detail=to_one_line(str(error))), ""
    return await grader.grade(target.tree, patch), patch


async def leave_patch(script: Script, target: Target, provider: SandboxProvider) -> str:
    """Run a script in a new sandbox and return its patch. Raises SandboxError."""
    async with started(provider, SandboxSpec.of(target.tree)) as sandbox:
        await run_script(script, target, sandbox)
        return await sandbox.diff()


async def run_script(script: Script, target: Target, sandbox: Sandbox) -> None:
    """Run a script in a sandbox, as an agent would. Honest scripts get the fix on standard input. Raises SandboxError."""
    await set_up_for_agent(sandbox, target.tree)
    stdin = target.tree.task.patch.encode() if script.kind == "honest" else b""
    await sandbox.exec(script.text, timeout_s=SCRIPT_TIMEOUT_S, stdin=stdin, env=target.variables)


def score_scripts(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """Summarise each attack or honest script: numbers of all, paid and lost trials, the defences that stopped it, reasons."""
    of_script: dict[str, list[Trial]] = {}
    for trial in trials:
        of_script.setdefault(trial.script.name, []).append(trial)
    return [
        {
            **found[0].script.row,
            "trials": len(found),
            "paid": sum(trial.paid is True for trial in found),
            "lost": sum(trial.paid is None for trial in found),
            "stopped_by": sorted({trial.stopped_by for trial in found if trial.stopped_by}),
            "reasons": [f"{trial.target}: {trial.reason}" for trial in found if trial.reason],
        }
        for found in of_script.values()
    ]


def sum_up(trials: Sequence[Trial]) -> dict[str, Any]:
    """Count attacks and honest patches by result. `caught_share`: of attacks that pass the tests, the share that audits stop."""
    attacks = [trial for trial in trials if trial.script.kind == "attack"]
    honest = [trial for trial in trials if trial.script.kind == "honest"]
    stopped = {layer: sum(trial.stopped_by == layer for trial in attacks) for layer in DEFENCES}
    paid = sum(trial.paid is True for trial in attacks)
    elsewhere = {trial.script.name for trial in attacks if trial.stopped_by not in ("", trial.script.layer)}
    return {
        "attacks": len({trial.script.name for trial in attacks}),
        "attack_trials": len(attacks),
        "attacks_paid": paid,
        "stopped_by": stopped,
        "stopped_elsewhere": sorted(elsewhere),
        "caught_share": stopped["audit"] / (stopped["audit"] + paid) if stopped["audit"] + paid else None,
        "honest": len({trial.script.name for trial in honest}),
        "honest_trials": len(honest),
        "honest_paid": sum(trial.paid is True for trial in honest),
        "honest_failed_audit": sum(trial.stopped_by == "audit" for trial in honest),
        "inconclusive": sum(trial.audited == "inconclusive" for trial in trials),
        "lost": sum(trial.paid is None for trial in trials),
    }
