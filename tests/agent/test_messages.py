"""Message episodes: the same loop, with limits by the server's token counts and estimates."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.agent.dialogues.messages import MessageDialogueFactory
from turnsmith.agent.loop import Episode, check_fits
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.chat.truncation import truncate_by_bytes
from turnsmith.config import AgentConfig
from turnsmith.engines.chat import ChatRequest, ContextFull, Reply
from turnsmith.errors import EngineError, UsageError
from turnsmith.types import StopReason, Trajectory, estimate_tokens

BEGUN = Trajectory(trajectory_id="e", group_id="g", index=0, instance_id="i", iteration=0, seed=7)


def say(command):
    return f"So.\n```command\n{command}\n```"


@dataclass
class Talker:
    """Engine with scripted replies of ten tokens each; a scripted ContextFull is raised."""

    texts: list
    tokens_per_message: int = 100
    requests: list[ChatRequest] = field(default_factory=list)

    async def chat(self, request):
        self.requests.append(request)
        if len(self.requests) > len(self.texts):
            raise EngineError("nothing more to say")
        text = self.texts[len(self.requests) - 1]
        if isinstance(text, Exception):
            raise text
        return Reply(text, "stop", self.tokens_per_message * len(request.messages), 10)

    def status(self):
        return ""

    async def close(self):
        pass


@pytest.fixture
def run(sandbox, make_task):
    async def run(talker, **changes):
        config = AgentConfig(**{"prompts": "brief", "max_context": 6000, "max_new_tokens": 400} | changes)
        dialogue = MessageDialogueFactory(talker).open(BEGUN, config)
        return await Episode(BEGUN, make_task(), dialogue, sandbox, load_scaffold(prompts="brief"), config).play()

    return run


async def test_an_episode_in_messages_has_texts_and_no_tokens(run):
    talker = Talker([say("ls"), "just talk", say("submit")])
    episode = await run(talker)
    assert (episode.form, episode.stop_reason, len(episode.token_ids)) == ("messages", StopReason.SUBMITTED, 0)
    assert [turn.command for turn in episode.turns] == ["ls", None, "submit"]
    said = [message.text for message in talker.requests[-1].messages]
    assert said[:2] == [message.text for message in episode.prompt]
    assert said[2:] == [say("ls"), episode.turns[0].observation, "just talk", episode.turns[1].observation]
    assert len({request.seed for request in talker.requests}) == 3


async def test_token_counts_come_from_the_server(run):
    episode = await run(Talker([say("ls"), say("submit")]))
    assert [(turn.start, turn.end) for turn in episode.turns] == [(200, 210), (400, 410)]
    assert (episode.prompt_tokens, episode.num_tokens, episode.num_sampled) == (200, 410, 20)


async def test_an_answer_that_fills_the_context_ends_the_episode(run):
    episode = await run(Talker([say("ls")] * 9), max_context=520, max_turns=9)
    assert (episode.stop_reason, len(episode.turns)) == (StopReason.CONTEXT_FULL, 3)


async def test_an_observation_that_leaves_no_room_ends_the_episode(run):
    episode = await run(Talker([say("seq 400")] * 2), max_context=500)
    assert (episode.stop_reason, len(episode.turns)) == (StopReason.CONTEXT_FULL, 1)


async def test_a_turn_is_limited_to_the_room_in_the_context(run):
    talker = Talker([say("ls"), say("submit")])
    await run(talker, max_context=450)
    assert talker.requests[1].max_new_tokens < 450 - 210 < 400


async def test_a_full_context_of_the_server_is_no_infrastructure_failure(run):
    episode = await run(Talker([say("ls"), ContextFull("too long")]))
    assert (episode.stop_reason, [turn.text for turn in episode.turns]) == (StopReason.CONTEXT_FULL, [say("ls"), ""])


async def test_turns_before_a_server_failure_are_kept(run):
    episode = await run(Talker([say("ls")]))
    assert (episode.stop_reason, episode.detail, len(episode.turns)) == (
        StopReason.ENGINE_FAILED, "nothing more to say", 1,
    )  # fmt: skip


async def test_observations_are_cut_to_their_budget(run):
    episode = await run(Talker([say("seq 5000"), say("submit")]), max_observation_tokens=200)
    observation = episode.turns[0].observation
    assert estimate_tokens(observation) <= 200 and " characters cut ...]" in observation
    assert observation.startswith("1\n2\n") and observation.endswith("bash-$")


def test_tasks_that_do_not_fit_are_refused_by_estimated_tokens(make_task):
    dialogues, scaffold = MessageDialogueFactory(Talker([])), load_scaffold(prompts="brief")
    check_fits([make_task()], dialogues, scaffold, AgentConfig(prompts="brief"))
    with pytest.raises(UsageError, match="the first prompt has"):
        check_fits([make_task("wrong " * 2_000)], dialogues, scaffold, AgentConfig(prompts="brief", max_context=2_000))


@given(st.text(max_size=300), st.integers(16, 60))
def test_a_cut_text_is_within_its_budget_and_keeps_both_ends(text, max_tokens):
    shown = truncate_by_bytes(text, max_tokens)
    assert estimate_tokens(shown) <= max_tokens
    if shown != text:
        head, _, tail = shown.partition("\n[... ")
        assert text.startswith(head) and text.endswith(tail.partition(" characters cut ...]\n")[2])
