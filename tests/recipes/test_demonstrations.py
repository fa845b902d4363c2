"""Demonstrations of practice tasks in real sandboxes: resolved, complete, resumable, and fit to imitate."""

import asyncio
import json
import shutil

import pytest

from support.episodes.silence import Silence
from support.models.small_tokenizers import make_tokenizer
from turnsmith.agent.expert.expert import Habits
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import AgentConfig, RolloutConfig, RunConfig, SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.grading.logparse import PARSERS
from turnsmith.recipes.demonstrations import JOURNAL, DemonstrationSpec, demonstrate
from turnsmith.recipes.imitation import load_samples, read_conversations
from turnsmith.runs.journal import append_trajectory, read_trajectories
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks
from turnsmith.tasks.task_set import TaskSet, read_task_set
from turnsmith.types import Isolation

AGENT = AgentConfig(prompts="brief", max_turns=12, max_context=8_192, window_lines=10, max_observation_tokens=400)
CONFIG = RunConfig(agent=AGENT, rollouts=RolloutConfig(concurrency=4, tests_timeout_s=60.0))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make three practice tasks."""

    async def make(folder):
        provider = make_provider(SandboxConfig(kind="subprocess"))
        try:
            await make_practice_tasks(PracticeSpec("train", 3, 0.3, seed=3), folder, provider)
        finally:
            await provider.close()
        return folder

    return asyncio.run(make(tmp_path_factory.mktemp("tasks") / "practice"))


@pytest.fixture
def tasks(folder):
    return read_task_set("practice", folder, PARSERS)


def change(agent=AGENT, habits=None, **changes):
    config = CONFIG.model_copy(update={"agent": agent})
    return DemonstrationSpec(config, habits=habits or Habits(), **changes)


@pytest.mark.parametrize("scaffold", ["paper", "bash"])
async def test_all_practice_tasks_are_resolved_with_any_scaffold(tasks, provider, tmp_path, scaffold):
    prompts = {"paper": "brief", "bash": "bash"}[scaffold]
    agent = AGENT.model_copy(update={"scaffold": scaffold, "prompts": prompts})
    spec = change(agent, Habits(mistakes=1.0))
    made = await demonstrate(tasks, spec, tmp_path / "out", provider, Silence())
    assert made.endings == {"resolved": 3}
    for conversation in made.conversations:
        spoken = [message for message in conversation.messages if message.role == "assistant"]
        assert sum(not message.trains for message in spoken) == 1
        assert spoken[-1].trains and spoken[-1].text.endswith("submit\n```")
        assert conversation.patch.startswith("diff --git")


async def test_conversations_can_be_imitated(tasks, provider, tmp_path):
    await demonstrate(tasks, change(num_each=2), tmp_path / "out", provider, Silence())
    conversations = read_conversations(tmp_path / "out", Isolation.NAMESPACES_USER)
    samples, counts = load_samples(conversations, tmp_path, ChatRenderer(make_tokenizer()), 8_192)
    assert counts["conversations/kept"] == len(samples) == 6
    assert all(sample.loss_mask.any() for sample in samples)


async def test_the_same_seed_gives_the_same_commands_and_another_seed_others(tasks, provider, tmp_path):
    async def play(name, seed):
        await demonstrate(tasks, change(seed=seed), tmp_path / name, provider, Silence())
        return [[turn.text for turn in each.turns] for each in read_trajectories(tmp_path / name / JOURNAL)]

    first = await play("a", 0)
    assert sorted(first) == sorted(await play("b", 0)) != sorted(await play("c", 1))


async def test_an_interrupted_call_continues_with_the_missing_episodes(tasks, provider, tmp_path):
    out = tmp_path / "out"
    await demonstrate(tasks, change(), out, provider, Silence())
    kept, *_ = read_trajectories(out / JOURNAL)
    (out / JOURNAL).unlink()
    append_trajectory(out / JOURNAL, kept)
    made = await demonstrate(tasks, change(), out, provider, Silence())
    assert len(made.conversations) == 3
    assert next(read_trajectories(out / JOURNAL)) == kept


async def test_other_settings_are_refused(tasks, provider, tmp_path):
    await demonstrate(tasks, change(), tmp_path / "out", provider, Silence())
    with pytest.raises(UsageError, match=r"habits\.mistakes differs"):
        await demonstrate(tasks, change(habits=Habits(mistakes=0.9)), tmp_path / "out", provider, Silence())


async def test_demonstrations_that_no_test_resolves_are_refused(tasks, provider, tmp_path):
    agent = AGENT.model_copy(update={"max_turns": 1})
    with pytest.raises(UsageError, match=r"none of 3 demonstrations is resolved .*empty_patch, max_turns"):
        await demonstrate(tasks, change(agent), tmp_path / "out", provider, Silence())
    assert not (tmp_path / "out" / "conversations.jsonl").exists()


async def test_demonstrations_that_no_model_could_write_are_refused(tasks, provider, tmp_path):
    agent = AGENT.model_copy(update={"max_new_tokens": 16})
    with pytest.raises(UsageError, match=r"\(3 resolved, cut at agent\.max_new_tokens\)"):
        await demonstrate(tasks, change(agent), tmp_path / "out", provider, Silence())


async def test_changes_of_files_that_are_not_python_are_left_out(folder, provider, tmp_path):
    shutil.copytree(folder, tmp_path / "tasks")
    tasks = read_task_set("practice", tmp_path / "tasks", PARSERS)
    for layer in {task.layers[0] for task in tasks.tasks}:
        (tmp_path / "tasks" / layer / "CHANGES.rst").write_text("old\n")
    news = "diff --git a/CHANGES.rst b/CHANGES.rst\n--- a/CHANGES.rst\n+++ b/CHANGES.rst\n@@ -1 +1 @@\n-old\n+new\n"
    both = TaskSet("both", [task.model_copy(update={"patch": news + task.patch}) for task in tasks.tasks], tasks.file)
    made = await demonstrate(both, change(), tmp_path / "out", provider, Silence())
    assert made.endings == {"resolved": 3}
    assert not any("CHANGES.rst" in conversation.patch for conversation in made.conversations)


async def test_tasks_without_a_gold_patch_are_refused(tasks, provider, tmp_path):
    bare = TaskSet("bare", [task.model_copy(update={"patch": ""}) for task in tasks.tasks], tasks.file)
    with pytest.raises(UsageError, match="none of 3 tasks has a gold patch"):
        await demonstrate(bare, change(), tmp_path / "out", provider, Silence())


async def test_settings_are_written_as_json(tasks, provider, tmp_path):
    await demonstrate(tasks, change(seed=7), tmp_path / "out", provider, Silence())
    settings = json.loads((tmp_path / "out" / "demonstrations.json").read_text())
    assert (settings["seed"], settings["agent"]["prompts"]) == (7, "brief")
