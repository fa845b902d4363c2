"""Turns from a server that fails and lies: what is tried again, what is lost, what stops a run, and what is booked."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import asdict

import pytest

pytest.importorskip("openai", reason="turnsmith[endpoint] is not installed")
pytest.importorskip("uvicorn", reason="turnsmith[dev] is not installed")

from chat_server import KEY, MODEL, ChatServer, in_turn, say, serving
from turnsmith.config import EndpointConfig, PricesConfig
from turnsmith.engines.chat import ChatRequest, ContextFull
from turnsmith.engines.endpoint.account import Account, Entry, read_entries
from turnsmith.engines.endpoint.answers import read_reply, read_usage
from turnsmith.engines.endpoint.engine import EndpointEngine
from turnsmith.errors import EngineError, OutOfBudget, UsageError
from turnsmith.types import Message, SamplingParams

PRICES = PricesConfig(input=3.0, cached_input=0.5, output=15.0)


def ask(episode="eval-base/task-1/0", words="The total is wrong.", **changes):
    messages = (Message(role="system", text="Repair it."), Message(role="user", text=words))
    return ChatRequest(**{"episode_id": episode, "messages": messages, "max_new_tokens": 50, "seed": 3} | changes)


@pytest.fixture
def server():
    with serving(lambda messages: say("submit")) as server:
        yield server


@asynccontextmanager
async def opened(server: ChatServer, folder, key="", **changes):
    given = {"address": server.address, "model": MODEL, "first_wait_s": 0.01, "retries": 2, "timeout_s": 5.0}
    config = EndpointConfig.model_validate(given | changes)
    engine = EndpointEngine(config, key, Account(folder / "costs.json", config.prices))
    try:
        yield engine
    finally:
        await engine.close()


async def test_a_turn_is_the_text_and_the_servers_own_figures(server, tmp_path):
    async with opened(server, tmp_path) as engine:
        reply = await engine.chat(ask())
    usage = server.books
    assert (reply.text, reply.finish_reason) == (say("submit"), "stop")
    assert (reply.input_tokens, reply.output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert server.bodies[0]["messages"][1] == {"role": "user", "content": "The total is wrong."}


def test_half_a_pair_of_surrogates_is_a_question_mark():
    answer = {"choices": [{"message": {"content": "a\ud800b"}, "finish_reason": "stop"}]}
    assert read_reply(answer, ask(), read_usage(answer, ask())).text == "a?b"


async def test_the_key_is_hidden_however_json_spells_it(server, tmp_path):
    answer = json.loads(r'{"said": ["Bearer sk-ab\/cd\u0065fghijkl", 1, null]}')
    async with opened(server, tmp_path, key="sk-ab/cdefghijkl") as engine:
        assert engine.hide_all(answer) == {"said": ["Bearer …", 1, None]}


async def test_a_word_in_place_of_a_key_is_left_where_a_model_says_it(server, tmp_path):
    async with opened(server, tmp_path, key="submit") as engine:
        assert (await engine.chat(ask())).text == say("submit")


async def test_what_is_sent_says_how_to_sample(server, tmp_path):
    async with opened(server, tmp_path) as engine:
        await engine.chat(ask())
        await engine.chat(ask(params=SamplingParams(temperature=0.7, top_k=20)))
    async with opened(
        server, tmp_path, max_tokens_key="max_completion_tokens", leave_out=["seed"], extra_body={"top_p": 0.9}
    ) as engine:
        await engine.chat(ask())
    plain, filtered, own = ({k: v for k, v in body.items() if k not in ("model", "messages")} for body in server.bodies)
    assert plain == {"max_tokens": 50, "seed": 3, "temperature": 1.0, "top_p": 1.0}
    assert filtered == {"max_tokens": 50, "seed": 3, "temperature": 0.7, "top_p": 1.0, "top_k": 20}
    assert own == {"max_completion_tokens": 50, "temperature": 1.0, "top_p": 0.9}


PASSING = [
    "429", "429 0.01", "500", "503", "408", "cut", "broken-json", "html", "no-object",
    "no-choices", "no-fields", "empty", "null", "refusal", "filtered",
]  # fmt: skip


@pytest.mark.parametrize("fault", PASSING)
async def test_what_may_pass_is_tried_again(server, tmp_path, fault):
    server.faults = in_turn([fault, fault])
    async with opened(server, tmp_path) as engine:
        assert (await engine.chat(ask())).text == say("submit")
    assert server.books.requests == 3
    assert_same_books(engine, server)


@pytest.mark.parametrize("fault", PASSING)
async def test_what_does_not_pass_is_lost_and_nothing_else(server, tmp_path, fault):
    server.faults = in_turn([fault] * 3)
    async with opened(server, tmp_path) as engine:
        with pytest.raises(EngineError, match=r"gave no turn in 3 tries: .") as lost:
            await engine.chat(ask())
        assert not isinstance(lost.value, ContextFull)
        assert (await engine.chat(ask())).text == say("submit")
    assert_same_books(engine, server)


async def test_an_answer_that_does_not_come_in_time_is_asked_for_again(server, tmp_path):
    server.faults = in_turn(["hang"])
    async with opened(server, tmp_path, timeout_s=0.3) as engine:
        assert (await engine.chat(ask())).text == say("submit")
    assert engine.account.total.unanswered == 1 == server.books.unanswered


@pytest.mark.parametrize("fault", ["no-usage", "wrong-usage"])
async def test_tokens_that_nobody_counts_are_estimated_and_said_to_be(server, tmp_path, fault):
    server.faults = in_turn([fault])
    async with opened(server, tmp_path) as engine:
        reply = await engine.chat(ask())
    total = engine.account.total
    assert (total.estimated, total.output_tokens) == (1, reply.output_tokens)
    assert reply.output_tokens == -(-len(say("submit")) // 4)


async def test_figures_that_cannot_be_are_booked_as_charged_and_not_believed(server, tmp_path):
    server.faults = in_turn(["wild-usage"])
    async with opened(server, tmp_path) as engine:
        reply = await engine.chat(ask())
    assert reply.input_tokens < 100
    assert_same_books(engine, server)


async def test_a_turn_cut_by_its_limit_says_so(server, tmp_path):
    server.faults = in_turn(["length"])
    async with opened(server, tmp_path) as engine:
        reply = await engine.chat(ask())
    assert (reply.text, reply.finish_reason) == (say("submit")[:10], "length")


async def test_a_history_that_the_server_cannot_hold_is_full_not_broken(server, tmp_path):
    server.max_model_len = 100
    async with opened(server, tmp_path) as engine:
        with pytest.raises(ContextFull, match="maximum context length is 100"):
            await engine.chat(ask(words="long " * 200))
    assert server.books.requests == 1


@pytest.mark.parametrize("fault", ["401", "402", "404", "400", "403"])
async def test_what_no_try_can_better_is_not_tried_again(server, tmp_path, fault):
    server.faults = in_turn([fault])
    kind = UsageError if fault in ("401", "402", "404") else EngineError
    async with opened(server, tmp_path, key=KEY) as engine:
        with pytest.raises(kind, match=f"HTTP {fault}") as refused:
            await engine.chat(ask())
    assert server.books.requests == 1
    assert KEY not in str(refused.value)


async def test_a_key_that_the_server_repeats_goes_no_further(server, tmp_path):
    server.faults = in_turn(["echo"])
    async with opened(server, tmp_path, key=KEY) as engine:
        assert (await engine.chat(ask())).text == say("submit") + "Bearer …"


async def test_nobody_begins_while_the_server_has_asked_to_wait(server, tmp_path):
    server.faults = in_turn(["429 0.5"])
    async with opened(server, tmp_path) as engine:
        first = asyncio.create_task(engine.chat(ask()))
        while not engine.account.total.refused:
            await asyncio.sleep(0.01)
        await asyncio.gather(first, *(engine.chat(ask()) for _ in range(3)))
    begun = server.moments[0]
    assert all(moment - begun >= 0.45 for moment in server.moments[1:])


async def test_a_server_may_not_ask_for_longer_than_is_allowed(server, tmp_path):
    server.faults = in_turn(["429 3600"])
    async with opened(server, tmp_path, max_wait_s=0.05) as engine:
        await asyncio.wait_for(engine.chat(ask()), 20)


async def test_no_more_are_under_way_than_is_allowed(server, tmp_path):
    server.delay_s = 0.3
    async with opened(server, tmp_path, concurrency=3) as engine:
        await asyncio.gather(*(engine.chat(ask()) for _ in range(9)))
    assert server.most_at_once == 3


async def test_requests_are_begun_at_their_pace(server, tmp_path):
    async with opened(server, tmp_path, requests_per_minute=600) as engine:
        started = time.monotonic()
        await asyncio.gather(*(engine.chat(ask()) for _ in range(4)))
    assert server.moments[-1] - started >= 0.29


async def test_the_account_is_priced_by_stage_and_goes_on_after_a_restart(server, tmp_path):
    async with opened(server, tmp_path, prices=PRICES) as engine:
        await engine.chat(ask())
    async with opened(server, tmp_path, prices=PRICES) as engine:
        long = (*ask().messages, Message(role="assistant", text="x" * 90), Message(role="user", text="and?"))
        await engine.chat(ask(episode="eval-rft/task-1/0", messages=long))
        assert engine.remark() == f"cost {engine.account.total.cost:.4g}"
    entries, books = read_entries(tmp_path / "costs.json"), server.books
    assert entries.keys() == {"eval-base", "eval-rft"} and entries["eval-rft"].cached_tokens > 0
    fresh = books.input_tokens - books.cached_tokens
    cost = (3.0 * fresh + 0.5 * books.cached_tokens + 15.0 * books.output_tokens) / 1e6
    assert sum(entry.cost for entry in entries.values()) == pytest.approx(cost, rel=1e-12)
    assert_same_books(engine, server)


async def test_a_spent_budget_stops_once_what_is_under_way_is_booked(server, tmp_path):
    server.delay_s = 0.2
    async with opened(server, tmp_path, prices=PRICES, budget=1e-9, concurrency=4) as engine:
        first = [asyncio.create_task(engine.chat(ask())) for _ in range(3)]
        await asyncio.sleep(0.1)
        answers = await asyncio.gather(*first, *(engine.chat(ask()) for _ in range(3)), return_exceptions=True)
        stopped = [answer for answer in answers if isinstance(answer, OutOfBudget)]
        assert stopped and all("--engine.openai.budget" in str(error) for error in stopped)
        assert_same_books(engine, server)
        num_requests = server.books.requests
        with pytest.raises(OutOfBudget):
            await engine.chat(ask())
    assert server.books.requests == num_requests == len(answers) - len(stopped)


async def test_who_is_cancelled_has_it_booked_as_unanswered(server, tmp_path):
    server.faults = in_turn(["hang"])
    async with opened(server, tmp_path) as engine:
        asking = asyncio.create_task(engine.chat(ask()))
        while not server.books.unanswered:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert engine.account.total == Entry(requests=1, unanswered=1)


def test_a_damaged_account_is_a_sentence(tmp_path):
    (tmp_path / "costs.json").write_text('{"stages": {"eval-base": {"requests": -1}}}')
    with pytest.raises(UsageError, match=r"costs\.json is damaged"):
        Account(tmp_path / "costs.json")


def assert_same_books(engine, server):
    total = engine.account.total.model_dump(exclude={"estimated", "cost"})
    assert total == asdict(server.books)
