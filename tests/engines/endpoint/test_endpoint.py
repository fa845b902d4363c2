"""Endpoint engine with a faulty server: retries, losses, stops and costs."""

import asyncio
import json
import time
from contextlib import asynccontextmanager
from dataclasses import asdict

import pytest

pytest.importorskip("openai", reason="turnsmith[endpoint] is not installed")
pytest.importorskip("uvicorn", reason="turnsmith[dev] is not installed")

from support.engines.chat_server import KEY, MODEL, ChatServer, in_turn, say, serving
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


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr("turnsmith.engines.endpoint.engine.FIRST_WAIT_S", 0.01)
    monkeypatch.setattr("turnsmith.engines.endpoint.engine.RETRIES", 2)


@asynccontextmanager
async def opened(server: ChatServer, folder, key="", **changes):
    given = {"address": server.address, "model": MODEL}
    config = EndpointConfig.model_validate(given | changes)
    engine = EndpointEngine(config, key, Account(folder / "costs.json", config.prices))
    try:
        yield engine
    finally:
        await engine.close()


async def test_reply_has_the_text_and_the_servers_token_counts(server, tmp_path):
    async with opened(server, tmp_path) as engine:
        reply = await engine.chat(ask())
    usage = server.books
    assert (reply.text, reply.finish_reason) == (say("submit"), "stop")
    assert (reply.input_tokens, reply.output_tokens) == (usage.input_tokens, usage.output_tokens)
    assert server.bodies[0]["messages"][1] == {"role": "user", "content": "The total is wrong."}


def test_lone_surrogate_becomes_a_question_mark():
    answer = {"choices": [{"message": {"content": "a\ud800b"}, "finish_reason": "stop"}]}
    assert read_reply(answer, ask(), read_usage(answer, ask())).text == "a?b"


async def test_key_is_hidden_even_if_escaped_in_json(server, tmp_path):
    answer = json.loads(r'{"said": ["Bearer sk-ab\/cd\u0065fghijkl", 1, null]}')
    async with opened(server, tmp_path, key="sk-ab/cdefghijkl") as engine:
        assert engine.hide_all(answer) == {"said": ["Bearer …", 1, None]}


async def test_placeholder_key_is_not_hidden_in_text(server, tmp_path):
    async with opened(server, tmp_path, key="submit") as engine:
        assert (await engine.chat(ask())).text == say("submit")


async def test_request_contains_the_sampling_parameters(server, tmp_path):
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
async def test_passing_faults_are_retried(server, tmp_path, fault):
    server.faults = in_turn([fault, fault])
    async with opened(server, tmp_path) as engine:
        assert (await engine.chat(ask())).text == say("submit")
    assert server.books.requests == 3
    assert_same_books(engine, server)


@pytest.mark.parametrize("fault", PASSING)
async def test_persistent_fault_is_an_engine_error(server, tmp_path, fault):
    server.faults = in_turn([fault] * 3)
    async with opened(server, tmp_path) as engine:
        with pytest.raises(EngineError, match=r"gave no turn in 3 tries: .") as lost:
            await engine.chat(ask())
        assert not isinstance(lost.value, ContextFull)
        assert (await engine.chat(ask())).text == say("submit")
    assert_same_books(engine, server)


async def test_late_answer_is_requested_again(server, tmp_path, monkeypatch):
    server.faults = in_turn(["hang"])
    monkeypatch.setattr("turnsmith.engines.endpoint.engine.TIMEOUT_S", 0.3)
    async with opened(server, tmp_path) as engine:
        assert (await engine.chat(ask())).text == say("submit")
    assert engine.account.total.unanswered == 1 == server.books.unanswered


@pytest.mark.parametrize("fault", ["no-usage", "wrong-usage"])
async def test_missing_token_counts_are_estimated_and_marked(server, tmp_path, fault):
    server.faults = in_turn([fault])
    async with opened(server, tmp_path) as engine:
        reply = await engine.chat(ask())
    total = engine.account.total
    assert (total.estimated, total.output_tokens) == (1, reply.output_tokens)
    assert reply.output_tokens == -(-len(say("submit")) // 4)


async def test_implausible_token_counts_are_recorded_but_replaced_by_estimates(server, tmp_path):
    server.faults = in_turn(["wild-usage"])
    async with opened(server, tmp_path) as engine:
        reply = await engine.chat(ask())
    assert reply.input_tokens < 100
    assert_same_books(engine, server)


async def test_turn_cut_by_its_limit_has_finish_reason_length(server, tmp_path):
    server.faults = in_turn(["length"])
    async with opened(server, tmp_path) as engine:
        reply = await engine.chat(ask())
    assert (reply.text, reply.finish_reason) == (say("submit")[:10], "length")


async def test_too_long_history_raises_context_full(server, tmp_path):
    server.max_model_len = 100
    async with opened(server, tmp_path) as engine:
        with pytest.raises(ContextFull, match="maximum context length is 100"):
            await engine.chat(ask(words="long " * 200))
    assert server.books.requests == 1


@pytest.mark.parametrize("fault", ["401", "402", "404", "400", "403"])
async def test_permanent_refusals_are_not_retried(server, tmp_path, fault):
    server.faults = in_turn([fault])
    kind = UsageError if fault in ("401", "402", "404") else EngineError
    async with opened(server, tmp_path, key=KEY) as engine:
        with pytest.raises(kind, match=f"HTTP {fault}") as refused:
            await engine.chat(ask())
    assert server.books.requests == 1
    assert KEY not in str(refused.value)


async def test_key_repeated_by_the_server_is_hidden(server, tmp_path):
    server.faults = in_turn(["echo"])
    async with opened(server, tmp_path, key=KEY) as engine:
        assert (await engine.chat(ask())).text == say("submit") + "Bearer …"


async def test_no_request_starts_during_a_requested_wait(server, tmp_path):
    server.faults = in_turn(["429 0.5"])
    async with opened(server, tmp_path) as engine:
        first = asyncio.create_task(engine.chat(ask()))
        while not engine.account.total.refused:
            await asyncio.sleep(0.01)
        await asyncio.gather(first, *(engine.chat(ask()) for _ in range(3)))
    begun = server.moments[0]
    assert all(moment - begun >= 0.45 for moment in server.moments[1:])


async def test_requested_wait_is_limited(server, tmp_path, monkeypatch):
    server.faults = in_turn(["429 3600"])
    monkeypatch.setattr("turnsmith.engines.endpoint.engine.MAX_WAIT_S", 0.05)
    async with opened(server, tmp_path) as engine:
        await asyncio.wait_for(engine.chat(ask()), 20)


async def test_request_rate_is_limited(server, tmp_path):
    async with opened(server, tmp_path, requests_per_minute=600) as engine:
        started = time.monotonic()
        await asyncio.gather(*(engine.chat(ask()) for _ in range(4)))
    assert server.moments[-1] - started >= 0.29


async def test_account_has_costs_by_stage_and_survives_a_restart(server, tmp_path):
    async with opened(server, tmp_path, prices=PRICES) as engine:
        await engine.chat(ask())
    async with opened(server, tmp_path, prices=PRICES) as engine:
        long = (*ask().messages, Message(role="assistant", text="x" * 90), Message(role="user", text="and?"))
        await engine.chat(ask(episode="eval-rft/task-1/0", messages=long))
        assert engine.status() == f"cost {engine.account.total.cost:.4g}"
    entries, books = read_entries(tmp_path / "costs.json"), server.books
    assert entries.keys() == {"eval-base", "eval-rft"} and entries["eval-rft"].cached_tokens > 0
    fresh = books.input_tokens - books.cached_tokens
    cost = (3.0 * fresh + 0.5 * books.cached_tokens + 15.0 * books.output_tokens) / 1e6
    assert sum(entry.cost for entry in entries.values()) == pytest.approx(cost, rel=1e-12)
    assert_same_books(engine, server)


async def test_spent_budget_stops_after_recording_running_requests(server, tmp_path):
    server.delay_s = 0.2
    async with opened(server, tmp_path, prices=PRICES, budget=1e-9) as engine:
        first = [asyncio.create_task(engine.chat(ask())) for _ in range(3)]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        answers = await asyncio.gather(*first, *(engine.chat(ask()) for _ in range(3)), return_exceptions=True)
        stopped = [answer for answer in answers if isinstance(answer, OutOfBudget)]
        assert stopped and all("--engine.openai.budget" in str(error) for error in stopped)
        assert_same_books(engine, server)
        num_requests = server.books.requests
        with pytest.raises(OutOfBudget):
            await engine.chat(ask())
    assert server.books.requests == num_requests == len(answers) - len(stopped)


async def test_cancelled_request_is_recorded_as_unanswered(server, tmp_path):
    server.faults = in_turn(["hang"])
    async with opened(server, tmp_path) as engine:
        asking = asyncio.create_task(engine.chat(ask()))
        while not server.books.unanswered:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert engine.account.total == Entry(requests=1, unanswered=1)


def test_damaged_account_raises_usage_error(tmp_path):
    (tmp_path / "costs.json").write_text('{"stages": {"eval-base": {"requests": -1}}}')
    with pytest.raises(UsageError, match=r"costs\.json is damaged"):
        Account(tmp_path / "costs.json")


def assert_same_books(engine, server):
    total = engine.account.total.model_dump(exclude={"estimated", "cost"})
    assert total == asdict(server.books)
