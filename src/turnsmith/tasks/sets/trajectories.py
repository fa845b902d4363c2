"""Trajectory data sets of Nebius (SWE-agent and OpenHands), read as conversations for rejection fine-tuning (RFT).

Tool calls become text, as in the chat templates of Qwen and Hermes; tools are listed in the system message. Training formats
the messages by the chat template of the trained model.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any

from pydantic import ValidationError

from turnsmith.errors import first_fault
from turnsmith.tasks.sets.base import PublicSet, Refused, Row
from turnsmith.tasks.sets.cells import read_text
from turnsmith.types import Conversation, Message

FILE_NAME = "conversations.jsonl"
ROLES = {"system": "system", "user": "user", "tool": "user", "ai": "assistant", "assistant": "assistant"}


def describe_swe_agent(row: Row) -> Conversation:
    """Convert a SWE-agent row to a conversation. The row marks the turns that are used for training. Raises Refused."""
    turns = [
        (read_role(turn), str(turn.get("text") or turn.get("system_prompt") or ""), bool(turn.get("mask")))
        for turn in read_turns(row)
    ]
    return make_conversation(row, turns, resolved=bool(row.get("target")), patch=row.get("generated_patch"))


def describe_openhands(row: Row) -> Conversation:
    """Convert an OpenHands row to a conversation. All assistant turns are used for training. Raises Refused."""
    turns = [(read_role(turn), render_turn(turn), read_role(turn) == "assistant") for turn in read_turns(row)]
    if tools := drop_nulls(row.get("tools") or []):
        schemas = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        turns = [("system", f"You may call these tools:\n<tools>\n{schemas}\n</tools>", False), *turns]
    return make_conversation(row, turns, resolved=bool(row.get("resolved")), patch=row.get("model_patch"))


def read_turns(row: Row) -> list[dict[str, Any]]:
    """Return the messages of a row, stored as a list or as JSON. Raises Refused."""
    turns = row.get("trajectory")
    try:
        turns = json.loads(turns) if isinstance(turns, str) else turns
    except ValueError:
        turns = None
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        raise Refused("unreadable trajectory", "it is not a list of messages")
    return turns


def read_role(turn: dict[str, Any]) -> str:
    """Return the role of a message as Turnsmith names it. Raises Refused if the role is unknown."""
    role = turn.get("role")
    if role not in ROLES:
        raise Refused("unknown role", f"{role!r} is not one of {', '.join(ROLES)}")
    return ROLES[role]


def render_turn(turn: dict[str, Any]) -> str:
    """Format a message as text, with its tool calls."""
    calls = [render_call(call) for call in drop_nulls(turn.get("tool_calls") or [])]
    return "\n".join(filter(None, [str(turn.get("content") or ""), *calls]))


def render_call(call: dict[str, Any]) -> str:
    """Format a tool call as JSON within `<tool_call>`. Rows store its arguments as JSON text."""
    function = call.get("function") or {}
    arguments = function.get("arguments") or {}
    with suppress(ValueError):  # invalid JSON of the model is kept unchanged
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    rendered = json.dumps({"name": function.get("name"), "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{rendered}\n</tool_call>"


def drop_nulls(value: Any) -> Any:
    """Remove null values from JSON objects; Arrow adds them for missing keys."""
    if isinstance(value, dict):
        return {name: drop_nulls(held) for name, held in value.items() if held is not None}
    return [drop_nulls(item) for item in value] if isinstance(value, list) else value


def make_conversation(row: Row, turns: Iterable[tuple[str, str, bool]], *, resolved: bool, patch: Any) -> Conversation:
    """Build a conversation from turns: role, text, and True if the turn is used for training. Raises Refused."""
    messages = list(join_turns(turns))
    while messages and messages[-1].role != "assistant":
        messages.pop()  # no answer follows
    if not any(message.trains for message in messages):
        raise Refused("nothing to imitate", "no turn of the assistant is marked for training")
    try:
        return Conversation(
            conversation_id=identify(row),
            instance_id=read_text(row, "instance_id"),
            messages=messages,
            resolved=resolved,
            patch=str(patch or "").lstrip("\n"),
        )
    except ValidationError as error:
        raise Refused("out of turn", first_fault(error)) from None


def join_turns(turns: Iterable[tuple[str, str, bool]]) -> Iterator[Message]:
    """Join consecutive turns of the same role into one message if all or none of them are used for training."""
    for (role, trains), group in groupby(turns, key=lambda turn: (turn[0], turn[2])):
        yield Message.model_validate(
            {"role": role, "text": "\n\n".join(text for _, text, _ in group), "trains": trains}
        )


def identify(row: Row) -> str:
    """Return the id of a row's trajectory; if missing, the task id with a digest of the trajectory."""
    if row.get("trajectory_id"):
        return str(row["trajectory_id"])
    text = json.dumps(row.get("trajectory"), sort_keys=True, default=str)
    return f"{row.get('instance_id')}/{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:12]}"


SWE_AGENT = PublicSet(
    "nebius-swe-agent",
    frozenset({"instance_id", "trajectory", "exit_status", "generated_patch"}),
    describe_swe_agent,
    identify,
    file_name=FILE_NAME,
)
OPENHANDS = PublicSet(
    "nebius-openhands",
    frozenset({"trajectory_id", "instance_id", "trajectory", "model_patch", "resolved"}),
    describe_openhands,
    identify,
    file_name=FILE_NAME,
)
