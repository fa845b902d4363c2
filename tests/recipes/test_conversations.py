"""Imported trajectories: rows become conversations, and conversations become samples."""

import json
import os
from pathlib import Path

import pytest

from support.data_sets.golden_rows import NEBIUS_OPENHANDS, NEBIUS_SWE_AGENT
from support.models.small_tokenizers import make_tokenizer
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.errors import UsageError
from turnsmith.recipes.imitation import load_samples, read_conversations, render_conversation
from turnsmith.tasks.sets.base import Refused, to_record
from turnsmith.tasks.sets.importing import import_rows
from turnsmith.tasks.sets.reading import FoundRow
from turnsmith.tasks.sets.recognition import find_set, recognise
from turnsmith.types import Isolation

ROWS = Path(os.environ.get("TURNSMITH_ROWS", "/nonexistent"))


@pytest.fixture(scope="module")
def renderer():
    return ChatRenderer(make_tokenizer())


def bring_in(rows, folder, name="nebius-swe-agent"):
    """Return the last counts of an import."""
    found = [FoundRow(f"rows, row {number}", row) for number, row in enumerate(rows, 1)]
    return list(import_rows(find_set(name), found, folder))[-1]


def test_loss_covers_only_turns_that_train(renderer):
    conversation = to_record(find_set("nebius-swe-agent"), NEBIUS_SWE_AGENT)
    sample = render_conversation(conversation, renderer)
    tokenizer = renderer.tokenizer
    assert tokenizer.decode(sample.token_ids[sample.loss_mask]) == "Done.\n```\nsubmit\n```<|im_end|>"
    messages = [{"role": message.role, "content": message.text} for message in conversation.messages]
    whole = tokenizer.apply_chat_template(messages, tokenize=False)
    assert tokenizer.decode(sample.token_ids) == whole.removesuffix("\n")
    assert (conversation.resolved, conversation.patch.startswith("diff --git")) == (True, True)


def test_tool_calls_and_schemas_become_text_without_padding():
    conversation = to_record(find_set("nebius-openhands"), NEBIUS_OPENHANDS)
    system, _, call, answer, last = conversation.messages
    assert '"command": {"type": "string"}' in system.text and "null" not in system.text
    assert system.text.endswith("You are OpenHands.")
    assert call.text == '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'
    assert (answer.role, answer.text, answer.trains) == ("user", "cart.py", False)
    assert last.trains and conversation.conversation_id == "shop-tools__shop-17-3"


def test_trajectory_sets_are_recognised_by_their_columns():
    assert recognise(NEBIUS_SWE_AGENT) is find_set("nebius-swe-agent")
    assert recognise(NEBIUS_OPENHANDS) is find_set("nebius-openhands")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"trajectory": None}, "unreadable trajectory"),
        ({"trajectory": "[{"}, "unreadable trajectory"),
        ({"trajectory": [{"role": "judge", "text": "x"}]}, "unknown role"),
        ({"trajectory": NEBIUS_SWE_AGENT["trajectory"][:3]}, "nothing to imitate"),
        ({"trajectory": NEBIUS_SWE_AGENT["trajectory"][1:]}, "out of turn"),
        ({"instance_id": ""}, "no instance_id"),
    ],
)
def test_unusable_trajectories_give_a_reason(changed, reason):
    with pytest.raises(Refused) as refused:
        to_record(find_set("nebius-swe-agent"), NEBIUS_SWE_AGENT | changed)
    assert refused.value.reason == reason


def test_import_keeps_several_conversations_of_a_task_and_no_duplicates(tmp_path):
    other = NEBIUS_SWE_AGENT | {
        "trajectory": [*NEBIUS_SWE_AGENT["trajectory"][:4], NEBIUS_SWE_AGENT["trajectory"][4] | {"text": "b"}]
    }
    assert bring_in([NEBIUS_SWE_AGENT, other], tmp_path).imported == 2
    assert str(bring_in([NEBIUS_SWE_AGENT, other], tmp_path)) == "imported 2 (2 were there) · refused 0"
    assert [each.instance_id for each in read_conversations(tmp_path, Isolation.NONE)] == ["shop-tools__shop-17"] * 2


def test_unresolved_and_too_long_conversations_are_left_out_and_counted(renderer, tmp_path):
    unresolved = NEBIUS_SWE_AGENT | {"target": False, "trajectory": [*NEBIUS_SWE_AGENT["trajectory"][:5]]}
    bring_in([NEBIUS_SWE_AGENT, unresolved | {"instance_id": "b"}], tmp_path)
    samples, told = load_samples(read_conversations(tmp_path, Isolation.NONE), tmp_path, renderer, max_tokens=4096)
    assert [sample.group_id for sample in samples] == ["shop-tools__shop-17"]
    assert [told[f"conversations/{name}"] for name in ("read", "resolved", "kept", "retokenised")] == [2, 1, 1, 1]
    with pytest.raises(UsageError, match=r"8 tokens \(2 read, 1 resolved\)"):
        load_samples(read_conversations(tmp_path, Isolation.NONE), tmp_path, renderer, max_tokens=8)
    with pytest.raises(UsageError, match=str(tmp_path)):
        read_conversations(tmp_path / "none", Isolation.NONE)


@pytest.mark.skipif(not ROWS.is_dir(), reason="TURNSMITH_ROWS names no folder of real rows")
def test_a_real_trajectory_is_imported(renderer):
    for line in (ROWS / "nebius-swe-agent-trajectories.jsonl").read_text().splitlines():
        row = json.loads(line)
        conversation = to_record(find_set("nebius-swe-agent"), row)
        said = [turn["text"] for turn in row["trajectory"] if turn["mask"]]
        assert [message.text for message in conversation.messages if message.trains] == said
        assert render_conversation(conversation, renderer).num_loss_tokens > 0
