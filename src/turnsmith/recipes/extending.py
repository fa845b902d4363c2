"""A run that has begun is given more to do, or other limits of the machine; nothing that it has done becomes untrue."""

import shutil
from fnmatch import fnmatchcase
from pathlib import Path

from turnsmith.config import RunConfig
from turnsmith.errors import UsageError
from turnsmith.runs import RunFolder, list_differences, read_json, write_json

FREE = (
    "model.threads",
    "rollouts.concurrency",
    "rollouts.grading_workers",
    "rollouts.retries",
    "rollouts.max_infrastructure_share",
    "sandbox.num_ahead",
    "logprob_gap.*",
    "runs.keep_checkpoints",
    "tracking*",
    "runs.keep_checkpoints",
    "stages.*.plateau",
    "eval.k",
    "stages.*.max_silent_iterations",
)
"""Keys that what is done does not depend on."""
GROWING = ("stages.*.iterations", "eval.num_runs")
"""Keys that may grow."""


def extend(old: RunConfig, new: RunConfig, folder: RunFolder) -> list[str]:
    """Give a run another configuration, all of it or nothing; returns the keys that changed.

    The old one is kept as `config.json.N`, and evaluations of a stage that will go on as `evals/STAGE@ITERATIONS`. Only for
    whoever holds the folder. Raises UsageError that names a key which cannot change.
    """
    keys = list(list_differences(old.model_dump(mode="json"), new.model_dump(mode="json")))
    for key in keys:
        refuse(key, old, new, folder)
    if keys:
        set_aside_evaluations(old, new, folder)
        folder.results.unlink(missing_ok=True)
        write_json(folder.unused_copy(), read_json(folder.config))
        write_json(folder.config, new.model_dump(mode="json"))
    return keys


def refuse(key: str, old: RunConfig, new: RunConfig, folder: RunFolder) -> None:
    """Raises UsageError where a change of the key would make untrue what is done, or cannot be made good."""
    if any(fnmatchcase(key, pattern) for pattern in FREE):
        return
    if key == "eval.num_runs":
        refuse_fewer(key, new.eval.num_runs, old.eval.num_runs if any(folder.path.glob("evals/*/*")) else 0)
    elif fnmatchcase(key, "stages.*.iterations"):
        refuse_iterations(key, new, folder)
    elif not is_new_task_set(key, folder):
        raise UsageError(
            f"{key} cannot change in {folder.path}, since what is done was done with the old one: start a new run; "
            f"what may change is {', '.join([*GROWING, 'eval_tasks.NAME of a new set', *FREE])}"
        )


def refuse_iterations(key: str, new: RunConfig, folder: RunFolder) -> None:
    """Raises UsageError where so many are done, or where a later stage goes on from what this one left."""
    index = int(key.split(".")[1])
    begun = [stage.name for stage in new.stages[index + 1 :] if folder.stage(stage.name).exists()]
    if begun:
        raise UsageError(f"{key} cannot change, since {begun[0]} goes on from what is done: start a new run")
    stage = new.stages[index]
    refuse_fewer(key, stage.iterations, folder.next_iteration(stage.name))


def refuse_fewer(key: str, wanted: int, done: int) -> None:
    """Raises UsageError."""
    if wanted < done:
        raise UsageError(f"{key} cannot be {wanted}, since {done} are done: give more")


def is_new_task_set(key: str, folder: RunFolder) -> bool:
    """Is it about an evaluation set of which no evaluation has begun?"""
    section, _, rest = key.partition(".")
    return section == "eval_tasks" and not any(folder.path.glob(f"evals/*/{rest.split('.')[0]}"))


def set_aside_evaluations(old: RunConfig, new: RunConfig, folder: RunFolder) -> None:
    """Evaluations of what will be another checkpoint, and results that more runs will be counted in."""
    for before, after in zip(old.stages, new.stages, strict=True):
        done, evaluations = folder.next_iteration(before.name), folder.evaluations(before.name)
        if after.iterations > done and evaluations.exists():
            keep(evaluations, folder.evaluations(folder.name_checkpoint(before.name, done)))
    if new.eval != old.eval:
        for result in folder.path.glob("evals/*/*/result.json"):
            if "@" not in result.parts[-3]:  # of a checkpoint that is no more
                result.rename(result.with_name(f"result-{old.eval.num_runs}-runs.json"))


def keep(evaluations: Path, place: Path) -> None:
    """Move evaluations out of the way; where a kill came between this and the new configuration, they are there already."""
    if place.exists():
        shutil.rmtree(evaluations)
    else:
        evaluations.rename(place)
