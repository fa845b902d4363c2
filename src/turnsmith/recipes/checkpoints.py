"""Which policies a run has kept, found without torch."""

from dataclasses import dataclass
from pathlib import Path

from turnsmith.config import RunConfig
from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder


@dataclass(frozen=True)
class Checkpoint:
    """A policy that lies in a run folder."""

    name: str
    """Under which its evaluations are kept: `stage1`, or `stage1@4` where the stage has gone on since."""
    stage: str
    num_done: int
    """Iterations of its stage that made it."""
    directory: Path


def find_checkpoint(config: RunConfig, folder: RunFolder, name: str = "") -> Checkpoint:
    """The final policy of a finished run, or the one of a name such as `rft`, `stage1` or `stage1@4`. Raises UsageError."""
    stages = list_stages(config)
    if not stages:
        raise UsageError(f"{folder.path} trains nothing, so it has no checkpoint: give a run with RFT or RL")
    if not name:
        refuse_unfinished(config, folder)
    stage, has_number, number = (name or stages[-1]).partition("@")
    if stage not in stages:
        raise UsageError(f"{folder.path} has no stage {stage!r}: it has {', '.join(stages)}")
    kept = list_kept(folder, stage)
    if not kept:
        remedy = "it is gone" if folder.next_iteration(stage) else f"`turnsmith resume {folder.path}` makes one"
        raise UsageError(f"{folder.path} has no checkpoint of {stage}: {remedy}")
    num_done = int(number) if number.isdecimal() else 0 if has_number else folder.next_iteration(stage)
    if num_done not in kept:
        known = ", ".join(folder.name_checkpoint(stage, each) for each in kept)
        raise UsageError(f"{folder.path} has no checkpoint {name or stage!r}: of {stage} it has kept {known}")
    is_last = num_done == folder.next_iteration(stage)
    full_name = stage if is_last else folder.name_checkpoint(stage, num_done)
    return Checkpoint(full_name, stage, num_done, folder.checkpoint(stage, num_done - 1))


def list_stages(config: RunConfig) -> list[str]:
    """Names of what changes the policy, in order."""
    return [*(["rft"] if config.rft else []), *(stage.name for stage in config.stages)]


def list_kept(folder: RunFolder, stage: str) -> list[int]:
    """After how many iterations of a stage there is a checkpoint."""
    done = range(1, folder.next_iteration(stage) + 1)
    return [number for number in done if (folder.checkpoint(stage, number - 1) / "config.json").is_file()]


def refuse_unfinished(config: RunConfig, folder: RunFolder) -> None:
    """Raises UsageError where the run has more to do."""
    is_cut = any(not stage.plateau and folder.next_iteration(stage.name) < stage.iterations for stage in config.stages)
    if is_cut or not folder.results.exists():
        raise UsageError(
            f"{folder.path} is not finished: `turnsmith resume {folder.path}` goes on, or name what it has by --checkpoint"
        )
