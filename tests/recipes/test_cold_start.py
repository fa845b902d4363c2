"""Cold start: conversations for another scaffold are refused, and finished work is not repeated."""

import pytest

from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.config import COLD_START, ColdStartConfig, RunConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.cold_start import refuse_other_scaffold, run_cold_start
from turnsmith.runs.folder import read_json
from turnsmith.types import Conversation, Message

from .conftest import CONFIG, OPTIMIZER

SCAFFOLD = load_scaffold(prompts="brief")


def make_conversation(system=None, turn="Done.\n```command\nsubmit\n```", **changes):
    messages = [
        Message(role="system", text=SCAFFOLD.system() if system is None else system),
        Message(role="user", text="It is wrong."),
        Message(role="assistant", text=turn, trains=True),
    ]
    return Conversation(conversation_id="c-1", instance_id="t-1", messages=messages, **({"resolved": True} | changes))


@pytest.mark.parametrize(
    ("conversation", "sentence"),
    [
        (make_conversation(system=load_scaffold("bash").system()), "another system message than agent.scaffold"),
        (make_conversation(turn="Done.\n```\nsubmit\n```"), "without exactly one command block"),
    ],
)
def test_conversations_for_another_scaffold_are_refused(conversation, sentence):
    with pytest.raises(UsageError, match=sentence):
        refuse_other_scaffold([make_conversation(), conversation], "demos", SCAFFOLD)


def test_fitting_and_unresolved_conversations_are_accepted():
    with_demonstration = make_conversation(system=SCAFFOLD.system(demonstration=True))
    refuse_other_scaffold(
        [make_conversation(), with_demonstration, make_conversation("x", resolved=False)], "d", SCAFFOLD
    )


async def test_a_finished_cold_start_is_loaded_and_not_repeated(make_run, folder, tmp_path):
    lines = "".join(f"{make_conversation().model_dump_json()}\n" for _ in range(4))
    (tmp_path / "conversations.jsonl").write_text(lines)
    cold_start = ColdStartConfig(conversations=str(tmp_path), batch_size=2, optimizer=OPTIMIZER.model_dump())
    config = RunConfig.model_validate(CONFIG.model_dump() | {"cold_start": cold_start.model_dump()})
    await run_cold_start(cold_start, make_run(config))
    files = folder.iteration(COLD_START, 0)
    metrics, written = read_json(files.metrics), files.metrics.stat().st_mtime_ns
    assert (metrics["conversations/kept"], metrics["optimizer/steps"], metrics["policy/version"]) == (4, 2, 2)
    (tmp_path / "conversations.jsonl").unlink()
    run = make_run(config)
    await run_cold_start(cold_start, run)
    assert run.policy.engine.policy_version == 2 and files.metrics.stat().st_mtime_ns == written
