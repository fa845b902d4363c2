"""Files that `turnsmith tasks make` writes next to the tasks: results of tried bugs, settings and counts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.runs.folder import read_json, write_json
from turnsmith.runs.new_folders import refuse_taken
from turnsmith.synthesis.validation import KEPT
from turnsmith.types import Record

TRIALS, MAKING = "candidates.jsonl", "making.json"


class BugTrial(Record):
    """Result of one tried bug of a package."""

    package: str
    instance_id: str
    mutator: str
    reason: str
    """`kept`, or the reason for rejecting the bug."""


@dataclass(frozen=True)
class MakingSpec:
    """Packages, number and seed of the tasks to make."""

    packages: tuple[str, ...]
    """Packages that get bugs: `name==version`, or paths of git checkouts."""
    num_tasks: int
    """Number of tasks to make per package."""
    seed: int = 0


def claim_folder(out: Path, spec: MakingSpec) -> bool:
    """Create the output folder, or accept one whose tasks have the same number and seed. Return True for a new folder.

    Raises UsageError if the folder holds anything else.
    """
    settings = {"num_tasks": spec.num_tasks, "seed": spec.seed}
    if (out / MAKING).exists():
        found = {name: read_json(out / MAKING).get(name) for name in settings}
        if found != settings:
            settings_text = ", ".join(f"{name} {value}" for name, value in found.items())
            raise UsageError(f"{out} holds tasks made with {settings_text}: give the same settings, or another --out")
        return False
    refuse_taken(out)
    try:
        write_json(out / MAKING, settings)
    except OSError as error:
        raise UsageError(f"cannot create {out} ({error.strerror}): give another --out") from None
    return True


def read_finished(out: Path) -> list[str]:
    """Read the names of the finished packages from `making.json`."""
    return list(read_json(out / MAKING).get("finished", []))


def write_counts(
    out: Path, spec: MakingSpec, trials: Iterable[BugTrial], finished: Sequence[str], failures: Mapping[str, str]
) -> None:
    """Write the settings and the counts of tried bugs to `making.json`."""
    by_package = defaultdict[str, list[BugTrial]](list)
    for trial in trials:
        by_package[trial.package].append(trial)
    counts = {package: count_trials(its) for package, its in by_package.items()}
    made = {"num_tasks": spec.num_tasks, "seed": spec.seed, "finished": [*finished], "failed": dict(failures)}
    mutators = count_mutators(trial for its in by_package.values() for trial in its)
    write_json(out / MAKING, made | {"packages": counts, "mutators": mutators})


def count_trials(trials: Iterable[BugTrial]) -> dict[str, Any]:
    """Count the results of tried bugs: `{"num_kept": 12, "num_tried": 40, "reasons": …}`."""
    reasons = Counter(trial.reason for trial in trials)
    return {"num_kept": reasons[KEPT], "num_tried": reasons.total(), "reasons": dict(reasons.most_common())}


def count_mutators(trials: Iterable[BugTrial]) -> dict[str, dict[str, int]]:
    """Count the tried and kept bugs per mutator: `{"swap_operands": {"tried": 9, "kept": 4}, …}`."""
    counts: dict[str, dict[str, int]] = {}
    for trial in trials:
        count = counts.setdefault(trial.mutator, {"tried": 0, "kept": 0})
        count["tried"] += 1
        count["kept"] += trial.reason == KEPT
    return dict(sorted(counts.items()))
