"""Imitating what others' agents said: text becomes tokens under the model's own template when it is trained on."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.errors import UsageError
from turnsmith.runs.folder import read_records
from turnsmith.tasks.sets.trajectories import FILE_NAME
from turnsmith.types import Conversation, Sample, add_tokenizer_provenance


def load_samples(
    conversations: Iterable[Conversation], name: Path, renderer: ChatRenderer, max_tokens: int
) -> tuple[list[Sample], dict[str, float]]:
    """Samples of the resolved ones that fit the context, and how many there were. Raises UsageError without any."""
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
        told = ", ".join(f"{int(count)} {name.partition('/')[2]}" for name, count in counts.items())
        raise UsageError(f"no conversation of {name} is resolved and fits {max_tokens} tokens ({told}): give others")
    kept = float(len(samples))
    return samples, counts | {"conversations/kept": kept, "conversations/retokenised": kept}


def read_conversations(path: Path) -> Iterator[Conversation]:
    """The conversations of a file, or of the folder that an import has made. Raises UsageError."""
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"no conversations at {file}: bring some in by `turnsmith tasks import nebius-swe-agent`, or give the run "
            "folder of an endpoint (engine.kind openai)"
        )
    return read_records(file, Conversation)


def render_conversation(conversation: Conversation, renderer: ChatRenderer) -> Sample:
    """Its tokens, of which those of turns that train are in the loss, each with the end of its turn."""
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
