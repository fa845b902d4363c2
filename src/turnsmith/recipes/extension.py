"""Changes to the configuration of a started run: more iterations or evaluations, or settings of the machine.

A change that would contradict finished work is refused.
"""

import shutil
from fnmatch import fnmatchcase

from turnsmith.config import RunConfig
from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder, list_differences, read_json, write_json

FREE = (
    "model.threads",
    "engine.vllm.python",
    "sandbox.container_engine",
    "engine.openai.budget",
    "engine.openai.prices*",
    "engine.openai.address",
    "engine.openai.key_variable",
    "engine.openai.requests_per_minute",
    "rollouts.concurrency",
    "rollouts.grading_workers",
    "logprob_gap.*",
    "keep_checkpoints",
    "tracking*",
    "stages.*.plateau",
    "eval.k",
    "stages.*.max_silent_iterations",
)
"""Configuration keys that a started run may change freely, because finished work does not depend on them."""
GROWING = ("stages.*.iterations", "eval.num_runs")
"""Configuration keys whose value may grow, but not fall, in a started run."""


def extend(old: RunConfig, new: RunConfig, folder: RunFolder) -> list[str]:
    """Replace the configuration of a run, completely or not at all, and return the changed keys.

    The old configuration becomes `config.json.N`, also if only its stored form differs, as that of an earlier version.
    Evaluations of a continued stage become `evals/STAGE@ITERATIONS`. The caller must hold the folder's lock.
    Raises UsageError that names a key which cannot change.
    """
    keys = list(list_differences(old.model_dump(mode="json"), new.model_dump(mode="json")))
    for key in keys:
        if fault := refuse(key, old, new, folder):
            raise UsageError(f"{key} cannot {fault}")
    if keys:
        rename_evaluations(old, new, folder)
        folder.results.unlink(missing_ok=True)
    stored, data = read_json(folder.config), new.model_dump(mode="json")
    if stored != data:
        write_json(folder.unused_copy(), stored)
        write_json(folder.config, data)
    return keys


def refuse(key: str, old: RunConfig, new: RunConfig, folder: RunFolder) -> str:
    """Return why a configuration key cannot change, as the rest of a sentence `KEY cannot …`; empty if it can change."""
    if any(fnmatchcase(key, pattern) for pattern in FREE):
        return ""
    match key.split("."):
        case ["eval", "num_runs"]:
            wanted, done = new.eval.num_runs, old.eval.num_runs if any(folder.path.glob("evals/*/*")) else 0
        case ["stages", index, "iterations"]:
            stage, *later = new.stages[int(index) :]
            if begun := [stage.name for stage in later if folder.stage(stage.name).exists()]:
                return f"change, since {begun[0]} has started from its last checkpoint: start a new run"
            wanted, done = stage.iterations, folder.next_iteration(stage.name)
        case ["eval_tasks", name, *_] if not any(folder.path.glob(f"evals/*/{name}")):
            return ""
        case _:
            free = ", ".join([*GROWING, "eval_tasks.NAME of a new set", *FREE])
            return f"change in {folder.path}, since finished work depends on it: start a new run; keys that may change are {free}"
    return f"be {wanted}, since {done} are done: give more" if wanted < done else ""


def rename_evaluations(old: RunConfig, new: RunConfig, folder: RunFolder) -> None:
    """Rename outdated evaluations, so that they are made again: folders of continued stages, and results if `eval` changed."""
    for stage in new.stages:
        done, evaluations = folder.next_iteration(stage.name), folder.evaluations(stage.name)
        if stage.iterations > done and evaluations.exists():
            earlier = folder.evaluations(folder.name_checkpoint(stage.name, done))
            if earlier.exists():  # an extension was killed before it wrote the new configuration
                shutil.rmtree(evaluations)
            else:
                evaluations.rename(earlier)
    if new.eval != old.eval:
        for result in folder.path.glob("evals/*/*/result.json"):
            *_, checkpoint, task_set, _ = result.parts
            if "@" not in checkpoint:  # evaluations of earlier checkpoints stay as they are
                result.rename(folder.earlier_result(checkpoint, task_set, old.eval.num_runs))
