"""What all trials of the red team came to, script by script and in sum."""

from collections.abc import Sequence
from typing import Any

from turnsmith.redteam.scripts import LAYERS
from turnsmith.redteam.trials import Trial


def score_scripts(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """For each script, in the order of its first trial: what it is, how often it was paid, what stopped it, and why."""
    names = dict.fromkeys(trial.script.name for trial in trials)
    return [_score_script([trial for trial in trials if trial.script.name == name]) for name in names]


def _score_script(trials: Sequence[Trial]) -> dict[str, Any]:
    return {
        **trials[0].script.row,
        "trials": len(trials),
        "paid": sum(trial.paid is True for trial in trials),
        "lost": sum(trial.paid is None for trial in trials),
        "stopped_by": sorted({trial.stopped_by for trial in trials if trial.stopped_by}),
        "reasons": [f"{trial.target}: {trial.reason}" for trial in trials if trial.reason],
    }


def sum_up(trials: Sequence[Trial]) -> dict[str, Any]:
    """The totals of both kinds. `caught_share` is of the attacks that the verdict alone pays for; None where there are none."""
    attacks = [trial for trial in trials if trial.script.kind == "attack"]
    honest = [trial for trial in trials if trial.script.kind == "honest"]
    stopped = {layer: sum(trial.stopped_by == layer for trial in attacks) for layer in LAYERS}
    paid = sum(trial.paid is True for trial in attacks)
    return {
        "attacks": len({trial.script.name for trial in attacks}),
        "attack_trials": len(attacks),
        "attacks_paid": paid,
        "stopped_by": stopped,
        "stopped_elsewhere": sorted({trial.script.name for trial in attacks if trial.is_stopped_elsewhere}),
        "caught_share": stopped["audit"] / (stopped["audit"] + paid) if stopped["audit"] + paid else None,
        "honest": len({trial.script.name for trial in honest}),
        "honest_trials": len(honest),
        "honest_paid": sum(trial.paid is True for trial in honest),
        "honest_convicted": sum(trial.stopped_by == "audit" for trial in honest),
        "inconclusive": sum(trial.audit is not None and trial.audit.verdict == "inconclusive" for trial in trials),
        "lost": sum(trial.paid is None for trial in trials),
    }
