"""Conversations from the run folder of an endpoint, for another model to imitate."""

from collections.abc import Iterator

from turnsmith.errors import UsageError
from turnsmith.git.patch_policy import digest_patch
from turnsmith.recipes.results import read_config
from turnsmith.recipes.review.audit import AuditedPatch
from turnsmith.recipes.task_sets import read_known_sets
from turnsmith.runs.folder import RunFolder, read_records
from turnsmith.runs.journal import read_last
from turnsmith.types import Conversation, Isolation, Message, Task, Trajectory


def read_run(folder: RunFolder, min_isolation: Isolation) -> Iterator[Conversation]:
    """Yield one conversation per trajectory. Raises UsageError if the run used no endpoint.

    It counts as resolved only if the tests resolved it and its patch has not failed an audit.
    """
    origin, failed = name_origin(folder), find_failed(folder)
    for trajectory in read_played(folder):
        if trajectory.turns and trajectory.turns[0].text:
            check_isolation(trajectory, folder, min_isolation)
            is_kept = trajectory.resolved and name_patch(trajectory) not in failed
            yield to_conversation(trajectory, origin, resolved=is_kept)


def read_played(folder: RunFolder) -> Iterator[Trajectory]:
    """Read the last attempt of every trajectory. Raises UsageError if they consist of tokens."""
    for journal in folder.journals():
        for trajectory in read_last(journal):
            if trajectory.form != "messages":
                raise UsageError(
                    f"{folder.path} holds token trajectories, usable only by the model that sampled them: "
                    "rft.conversations takes runs of an endpoint (engine.kind openai), or an imported set"
                )
            yield trajectory


def list_known_tasks(folder: RunFolder) -> list[Task]:
    """List the tasks of a run that still exist on disk; empty if the folder is not a run. Raises UsageError."""
    if not folder.config.is_file():
        return []
    config = read_config(folder)
    return [task for task_set in read_known_sets(config, folder) for task in task_set.tasks]


def check_isolation(trajectory: Trajectory, folder: RunFolder, wanted: Isolation) -> None:
    """Raise UsageError if the rollout or its grading was isolated less than training requires."""
    graded = trajectory.grade.isolation if trajectory.grade else ""
    for tier in filter(None, (trajectory.isolation, graded)):
        if Isolation(tier).is_weaker_than(wanted):
            raise UsageError(
                f"{folder.path} ran at isolation {tier}, and RFT needs {wanted}: evaluate again in other sandboxes, or "
                f"accept it by --sandbox.min_isolation {tier}"
            )


def to_conversation(trajectory: Trajectory, origin: str, *, resolved: bool) -> Conversation:
    """Convert a trajectory to a conversation that ends with the last model message; turns without a command do not train."""
    messages = list(trajectory.prompt)
    for turn in trajectory.turns:
        messages.append(Message(role="assistant", text=turn.text, trains=turn.command is not None))
        messages.append(Message(role="user", text=turn.observation))
    while messages[-1].role != "assistant" or not messages[-1].text:
        messages.pop()
    return Conversation(
        conversation_id=trajectory.trajectory_id,
        instance_id=trajectory.instance_id,
        messages=messages,
        resolved=resolved,
        patch=trajectory.patch,
        created_by=origin,
    )


def name_origin(folder: RunFolder) -> str:
    """Name the source of conversations, e.g. `some-model at http://…/v1, in runs/teacher`. Raises UsageError."""
    if not folder.config.is_file():
        return str(folder.path)
    endpoint = read_config(folder).engine.openai
    return f"{endpoint.model} at {endpoint.address}, in {folder.path}" if endpoint else str(folder.path)


def find_failed(folder: RunFolder) -> set[tuple[str, str]]:
    """Return task id and digest of the patches that failed `turnsmith audit`."""
    records = read_records(folder.audits, AuditedPatch)
    return {(record.instance_id, record.digest) for record in records if record.audit.verdict == "convicted"}


def name_patch(trajectory: Trajectory) -> tuple[str, str]:
    """Return task id and patch digest, the key of an audit."""
    return trajectory.instance_id, digest_patch(trajectory.patch)
