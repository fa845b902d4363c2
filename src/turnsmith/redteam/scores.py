"""What all trials of the red team came to, script by script and in sum."""

from collections.abc import Sequence
from typing import Any

from turnsmith.redteam.scripts import LAYERS
from turnsmith.redteam.trials import Trial


def score_scripts(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    """For each script, in the order of its first trial: what it is, how often it was paid, what stopped it, and why."""
    by_name: dict[str, list[Trial]] = {}
    for trial in trials:
        by_name.setdefault(trial.script.name, []).append(trial)
    return [_score_script(group) for group in by_name.values()]


def _score_script(trials: Sequence[Trial]) -> dict[str, Any]:
    script = trials[0].script
    return {
        "name": script.name,
        "kind": script.kind,
        "layer": script.layer,
        "tries": script.tries,
        "trials": len(trials),
        "paid": count_paid(trials),
        "lost": count_lost(trials),
        "stopped_by": sorted({trial.stopped_by for trial in trials if trial.stopped_by}),
        "reasons": [f"{trial.target}: {trial.reason}" for trial in trials if trial.reason],
    }


def sum_up(trials: Sequence[Trial]) -> dict[str, Any]:
    """The totals of both kinds. `caught_share` is of the attacks that the verdict alone pays for; None where there are none."""
    attacks = [trial for trial in trials if trial.script.kind == "attack"]
    honest = [trial for trial in trials if trial.script.kind == "honest"]
    caught, paid = sum(trial.stopped_by == "audit" for trial in attacks), count_paid(attacks)
    return {
        "attacks": count_scripts(attacks),
        "attack_trials": len(attacks),
        "attacks_paid": paid,
        "lost": count_lost(trials),
        "stopped_by": {layer: sum(trial.stopped_by == layer for trial in attacks) for layer in LAYERS},
        "caught_share": caught / (caught + paid) if caught + paid else None,
        "honest": count_scripts(honest),
        "honest_trials": len(honest),
        "honest_paid": count_paid(honest),
        "honest_convicted": sum(trial.stopped_by == "audit" for trial in honest),
        "inconclusive": sum(trial.audit is not None and trial.audit.verdict == "inconclusive" for trial in trials),
        "stopped_elsewhere": sorted({trial.script.name for trial in attacks if trial.is_stopped_elsewhere}),
    }


def count_scripts(trials: Sequence[Trial]) -> int:
    return len({trial.script.name for trial in trials})


def count_paid(trials: Sequence[Trial]) -> int:
    return sum(trial.paid is True for trial in trials)


def count_lost(trials: Sequence[Trial]) -> int:
    return sum(trial.paid is None for trial in trials)
