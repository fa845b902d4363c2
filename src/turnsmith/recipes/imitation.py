"""Conversations of other models, to be imitated: from a file, or from a run that evaluated a model behind an API.

The text is tokenised with the chat template of the trained model.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import ImitationConfig, RunConfig
from turnsmith.errors import UsageError
from turnsmith.git.patch_policy import digest_patch
from turnsmith.recipes.context import RunContext
from turnsmith.recipes.results import read_config
from turnsmith.recipes.task_sets import read_known_sets
from turnsmith.runs.folder import RunFolder, read_records
from turnsmith.runs.journal import read_last
from turnsmith.tasks.sets.trajectories import FILE_NAME
from turnsmith.tasks.task_set import TaskSet, find_shared
from turnsmith.types import (
    AuditedPatch,
    Conversation,
    Isolation,
    Message,
    Sample,
    Task,
    Trajectory,
    add_tokenizer_provenance,
)


def read_conversations(path: Path, min_isolation: Isolation) -> Iterator[Conversation]:
    """Read conversations from a run folder, a JSON Lines file, or the folder of an imported data set. Raises UsageError."""
    if RunFolder(path).config.is_file():
        return read_run(RunFolder(path), min_isolation)
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"no conversations at {file}: make some by `turnsmith tasks demonstrate`, import some by `turnsmith tasks import "
            "nebius-swe-agent`, or give the folder of a run with engine.kind openai"
        )
    return read_records(file, Conversation)


def refuse_evaluated(conversations: Iterable[Conversation], path: Path, eval_tasks: Sequence[TaskSet]) -> None:
    """Raise UsageError if a resolved conversation is about a task of an evaluation set."""
    about = {each.instance_id for each in conversations if each.resolved}
    known = [task for task in list_known_tasks(RunFolder(path)) if task.instance_id in about]
    for task_set in eval_tasks:
        same = {evaluated for evaluated, _ in find_shared(known, task_set.tasks)}
        if shared := sorted(same | about.intersection(task.instance_id for task in task_set.tasks)):
            raise UsageError(
                f"{path} holds conversations about {len(shared)} tasks that are evaluated, e.g. {shared[0]} of "
                f"eval_tasks.{task_set.name}: remove them from the conversations or from the task set"
            )


def load_samples(
    conversations: Iterable[Conversation], name: Path, renderer: ChatRenderer, max_tokens: int
) -> tuple[list[Sample], dict[str, float]]:
    """Make samples of the resolved conversations of at most `max_tokens` tokens.

    Return the samples, and the numbers of read, resolved and kept conversations. Raises UsageError if none is kept.
    """
    samples, counts = list[Sample](), {"conversations/read": 0.0, "conversations/resolved": 0.0}
    for conversation in conversations:
        counts["conversations/read"] += 1
        if not conversation.resolved:
            continue
        counts["conversations/resolved"] += 1
        sample = render_conversation(conversation, renderer)
        if len(sample) <= max_tokens:
            samples.append(sample)
    if not samples:
        counted = ", ".join(f"{int(count)} {name.partition('/')[2]}" for name, count in counts.items())
        raise UsageError(
            f"no conversation of {name} is resolved and fits {max_tokens} tokens ({counted}): give more conversations"
        )
    kept = float(len(samples))
    return samples, counts | {"conversations/kept": kept, "conversations/retokenised": kept}


def render_conversation(conversation: Conversation, renderer: ChatRenderer) -> Sample:
    """Convert a conversation to a sample. Its loss mask covers the turns to imitate, with their end-of-turn tokens."""
    system, user, *rest = conversation.messages
    token_ids = renderer.prompt_ids(system.text, user.text)
    trains = [False] * len(token_ids)
    for message in rest:
        if message.role == "assistant":
            added = renderer.reply_ids(message.text)
        else:
            added = renderer.observation_ids(message.text, after=renderer.end_of_turn_id)
        token_ids += added
        trains += [message.trains] * len(added)
    sample = Sample(
        trajectory_id=conversation.conversation_id,
        group_id=conversation.instance_id,
        token_ids=np.array(token_ids, np.int32),
        loss_mask=np.array(trains),
        sampled_logprobs=np.zeros(len(token_ids), np.float32),
        advantages=np.ones(len(token_ids), np.float32),
    )
    return add_tokenizer_provenance(sample)


def read_run(folder: RunFolder, min_isolation: Isolation) -> Iterator[Conversation]:
    """Yield one conversation per trajectory of a run. Raises UsageError if the run used no endpoint.

    A conversation is resolved if the tests passed, unless the patch failed an audit.
    """
    origin, audits = name_origin(folder), read_records(folder.audits, AuditedPatch)
    failed = {(each.instance_id, each.digest) for each in audits if each.audit.has_failed}
    for trajectory in read_dialogues(folder):
        if trajectory.turns and trajectory.turns[0].text:
            check_isolation(trajectory, folder, min_isolation)
            patch = trajectory.instance_id, digest_patch(trajectory.patch)
            yield to_conversation(trajectory, origin, resolved=trajectory.resolved and patch not in failed)


def read_dialogues(folder: RunFolder) -> Iterator[Trajectory]:
    """Yield the last trajectory of each rollout of a run. Raises UsageError if one holds tokens instead of messages."""
    for journal in folder.journals():
        for trajectory in read_last(journal):
            if trajectory.form != "messages":
                raise UsageError(
                    f"{folder.path} holds token trajectories, usable only by the model that sampled them: "
                    "imitation takes a run with engine.kind openai, or an imported data set"
                )
            yield trajectory


def list_known_tasks(folder: RunFolder) -> list[Task]:
    """List the tasks of a run that still exist on disk; empty if the folder is not a run. Raises UsageError."""
    if not folder.config.is_file():
        return []
    config = read_config(folder)
    return [task for task_set in read_known_sets(config, folder) for task in task_set.tasks]


def check_isolation(trajectory: Trajectory, folder: RunFolder, wanted: Isolation) -> None:
    """Raise UsageError if a trajectory's rollout or grading was isolated less than imitation requires."""
    graded = trajectory.grade.isolation if trajectory.grade else ""
    for tier in filter(None, (trajectory.isolation, graded)):
        if Isolation(tier).is_weaker_than(wanted):
            raise UsageError(
                f"{folder.path} ran at isolation {tier}, and imitation needs {wanted}: evaluate again in sandboxes with at least "
                f"isolation {wanted}, or accept {tier} by --sandbox.min_isolation {tier}"
            )


def to_conversation(trajectory: Trajectory, origin: str, *, resolved: bool) -> Conversation:
    """Convert a trajectory to a conversation that ends with a model message. Turns without a command are left out of the loss."""
    messages = list(trajectory.prompt)
    for turn in trajectory.turns:
        messages.append(Message(role="assistant", text=turn.text, trains=turn.trains and turn.command is not None))
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
    """Name the model that wrote conversations, e.g. `some-model at http://…/v1, in runs/teacher`. Raises UsageError."""
    if not folder.config.is_file():
        return str(folder.path)
    endpoint = read_config(folder).engine.openai
    return f"{endpoint.model} at {endpoint.address}, in {folder.path}" if endpoint else str(folder.path)


def list_unread(config: RunConfig, folder: RunFolder) -> list[Path]:
    """Return the paths of the conversations that the unfinished parts of a run imitate."""
    paths = {part: getattr(settings, "conversations", None) for part, settings in config.training.items()}
    return [Path(path) for part, path in paths.items() if path and not folder.iteration(part, 0).metrics.exists()]


def check_conversations(config: RunConfig, folder: RunFolder) -> None:
    """Raise UsageError if the conversations of an unfinished part are missing."""
    for path in list_unread(config, folder):
        read_conversations(path, config.sandbox.min_isolation)


def load_conversations(
    part: str, path: str, limits: ImitationConfig, run: RunContext
) -> tuple[list[Sample], dict[str, float]]:
    """Make samples of another agent's resolved conversations; return samples and metrics. Raises UsageError."""
    conversations = read_conversations(Path(path), run.config.sandbox.min_isolation)
    samples, counts = load_samples(conversations, Path(path), run.token_policy.renderer, limits.max_context)
    run.progress.log(
        f"{part}: {len(samples)} conversations of {name_origin(RunFolder(Path(path)))}, re-tokenised: their text is imitated "
        "under the chat template of model.path"
    )
    return samples, counts
