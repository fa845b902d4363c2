"""What the model of an endpoint said in a run, as conversations: text, which another model imitates under its own template."""

from collections.abc import Iterator

from turnsmith.config import RunConfig
from turnsmith.config.files import validate
from turnsmith.errors import UsageError
from turnsmith.git.patch_policy import digest_patch
from turnsmith.recipes.review.audit import AuditedPatch
from turnsmith.recipes.task_sets import read_known_sets
from turnsmith.runs.folder import RunFolder, read_json, read_records
from turnsmith.runs.journal import read_last
from turnsmith.types import Conversation, Isolation, Message, Task, Trajectory


def read_run(folder: RunFolder, min_isolation: Isolation) -> Iterator[Conversation]:
    """One for each trajectory, resolved where its patch may be learned from. Raises UsageError where no endpoint has played."""
    origin, convicted = name_origin(folder), find_convicted(folder)
    for trajectory in read_played(folder):
        if trajectory.turns and trajectory.turns[0].text:
            check_isolation(trajectory, folder, min_isolation)
            is_kept = trajectory.resolved and name_patch(trajectory) not in convicted
            yield to_conversation(trajectory, origin, resolved=is_kept)


def read_played(folder: RunFolder) -> Iterator[Trajectory]:
    """All trajectories of all journals; of one that was lost and made again the last. Raises UsageError where they are tokens."""
    for journal in folder.journals():
        for trajectory in read_last(journal):
            if trajectory.form != "messages":
                raise UsageError(
                    f"{folder.path} holds trajectories of tokens, which are the own of the model that sampled them: "
                    "rft.conversations takes runs of an endpoint (engine.kind openai), or an imported set"
                )
            yield trajectory


def list_known_tasks(folder: RunFolder) -> list[Task]:
    """The tasks of a teacher's run, where they still lie there; none of what is no run. Raises UsageError."""
    if not folder.config.is_file():
        return []
    config = validate(read_json(folder.config), folder.config, RunConfig)
    return [task for task_set in read_known_sets(config, folder) for task in task_set.tasks]


def check_isolation(trajectory: Trajectory, folder: RunFolder, wanted: Isolation) -> None:
    """What is learned from was played and graded in sandboxes that hold, as in training. Raises UsageError."""
    graded = trajectory.grade.isolation if trajectory.grade else ""
    for tier in filter(None, (trajectory.isolation, graded)):
        if Isolation(tier).is_weaker_than(wanted):
            raise UsageError(
                f"{folder.path} was played at isolation {tier}, and RFT needs {wanted}: evaluate again in other sandboxes, or "
                f"accept it by --sandbox.min_isolation {tier}"
            )


def to_conversation(trajectory: Trajectory, origin: str, *, resolved: bool) -> Conversation:
    """Its messages up to the last thing that the model said; turns that ran nothing do not train."""
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
    """`some-model at http://…/v1, in runs/teacher`, or the folder alone where no endpoint has played. Raises UsageError."""
    if not folder.config.is_file():
        return str(folder.path)
    endpoint = validate(read_json(folder.config), folder.config, RunConfig).engine.openai
    return f"{endpoint.model} at {endpoint.address}, in {folder.path}" if endpoint else str(folder.path)


def find_convicted(folder: RunFolder) -> set[tuple[str, str]]:
    """Task and digest of the patches that `turnsmith audit` has found to lie."""
    records = read_records(folder.audits, AuditedPatch)
    return {(record.instance_id, record.digest) for record in records if record.audit.verdict == "convicted"}


def name_patch(trajectory: Trajectory) -> tuple[str, str]:
    """As the audits do."""
    return trajectory.instance_id, digest_patch(trajectory.patch)
