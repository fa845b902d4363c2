"""Search for the checkpoints that a run has kept. Imports no torch."""

from dataclasses import dataclass
from pathlib import Path

from turnsmith.config import RunConfig
from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder


@dataclass(frozen=True)
class Checkpoint:
    """Weights of a policy, saved in a run folder."""

    name: str
    """Name of the checkpoint and of its evaluations: `stage1` after the last iteration, `stage1@4` after 4 iterations."""
    stage: str
    num_done: int
    """Number of iterations of the stage that were finished when the checkpoint was saved."""
    directory: Path


def find_checkpoint(config: RunConfig, folder: RunFolder, name: str = "") -> Checkpoint:
    """Find a checkpoint by name (`rft`, `stage1`, `stage1@4`), or the final one of a finished run. Raises UsageError."""
    stages = [*config.training]
    if not stages:
        raise UsageError(f"{folder.path} has no checkpoint, since it trains nothing: give a run with RFT or RL")
    if not name:
        refuse_unfinished(config, folder)
    stage, has_number, number = (name or stages[-1]).partition("@")
    if stage not in stages:
        raise UsageError(f"{folder.path} has no stage {stage!r}: it has {', '.join(stages)}")
    kept = list_kept(folder, stage)
    if not kept:
        remedy = "it was removed" if folder.next_iteration(stage) else f"`turnsmith resume {folder.path}` makes one"
        raise UsageError(f"{folder.path} has no checkpoint of {stage}: {remedy}")
    num_done = int(number) if number.isdecimal() else 0 if has_number else folder.next_iteration(stage)
    if num_done not in kept:
        known = ", ".join(folder.name_checkpoint(stage, each) for each in kept)
        raise UsageError(f"{folder.path} has no checkpoint {name or stage!r}: its checkpoints of {stage} are {known}")
    is_last = num_done == folder.next_iteration(stage)
    full_name = stage if is_last else folder.name_checkpoint(stage, num_done)
    return Checkpoint(full_name, stage, num_done, folder.iteration(stage, num_done - 1).checkpoint)


def list_kept(folder: RunFolder, stage: str) -> list[int]:
    """List the numbers of finished iterations after which a stage has a checkpoint on disk."""
    done = range(1, folder.next_iteration(stage) + 1)
    return [number for number in done if (folder.iteration(stage, number - 1).checkpoint / "config.json").is_file()]


def refuse_unfinished(config: RunConfig, folder: RunFolder) -> None:
    is_cut = any(not stage.plateau and folder.next_iteration(stage.name) < stage.iterations for stage in config.stages)
    if is_cut or not folder.results.exists():
        raise UsageError(f"{folder.path} is not finished: run `turnsmith resume {folder.path}`, or give --checkpoint")
