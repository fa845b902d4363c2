"""Imitation of other agents' conversations, tokenised with the chat template of the trained model."""

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
    """Make samples of the resolved conversations that fit the context, and count them.

    Raises UsageError if none remains.
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
        raise UsageError(f"no conversation of {name} is resolved and fits {max_tokens} tokens ({counted}): give others")
    kept = float(len(samples))
    return samples, counts | {"conversations/kept": kept, "conversations/retokenised": kept}


def read_conversations(path: Path) -> Iterator[Conversation]:
    """Read conversations from a JSON Lines file or from an import's folder. Raises UsageError."""
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise UsageError(
            f"no conversations at {file}: import some by `turnsmith tasks import nebius-swe-agent`, or give the run "
            "folder of an endpoint (engine.kind openai)"
        )
    return read_records(file, Conversation)


def render_conversation(conversation: Conversation, renderer: ChatRenderer) -> Sample:
    """Tokenise a conversation. The loss covers the turns that train, including their end-of-turn tokens."""
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
