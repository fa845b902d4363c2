"""Chat engine of an OpenAI-compatible server, with retries, rate limit, cost account and budget."""

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from httpx2 import Limits
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, DefaultAsyncHttpxClient
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from turnsmith.config import EndpointConfig
from turnsmith.engines.chat import ChatRequest, ContextFull, Reply
from turnsmith.engines.endpoint.account import Account
from turnsmith.engines.endpoint.answers import HOPELESS, Refusal, TransientError, classify_error, read_reply, read_usage
from turnsmith.errors import EngineError, OutOfBudget, UsageError
from turnsmith.io.files import parse_json
from turnsmith.io.http import find_wait
from turnsmith.types.conversations import encode

CONNECTIONS = Limits(max_connections=1_000, max_keepalive_connections=100, keepalive_expiry=2.0)
"""Limits of HTTP connections.

Idle connections are closed after two seconds. If the server closed them first, a request could be lost.
"""
RETRIES = 6
"""Maximum number of retries of a request after a temporary fault: HTTP 429 or 5xx, a broken connection, an empty answer."""
TIMEOUT_S = 600.0
"""Seconds to wait for one answer."""
FIRST_WAIT_S = 1.0
"""Seconds before the first retry of a request; each later wait is twice as long."""
MAX_WAIT_S = 60.0
"""Maximum seconds between two tries of a request, even if the server asks for more."""
MIN_SECRET = 12
"""Minimum length of API keys that are removed from texts of a server; shorter keys, such as `EMPTY`, may be ordinary words."""


class EndpointEngine:
    """Message engine that samples turns from a model on an OpenAI-compatible server."""

    def __init__(self, config: EndpointConfig, key: str, account: Account) -> None:
        self.config = config
        self.account = account
        self._key = key
        # Retries happen here, so that each is recorded and answers without a turn are retried too.
        self.client = AsyncOpenAI(
            base_url=config.address,
            api_key=key or "none",
            max_retries=0,
            timeout=TIMEOUT_S,
            http_client=DefaultAsyncHttpxClient(limits=CONNECTIONS),
        )
        self._rate_limiter = RateLimiter(config.requests_per_minute)
        self._num_under_way = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def chat(self, request: ChatRequest) -> Reply:
        """Sample one turn. Raises ContextFull, OutOfBudget, EngineError, or UsageError if later requests would fail too."""
        try:
            return await self.chat_with_retries(request)
        except Refusal as refusal:
            if refusal.is_full:
                raise ContextFull(self.hide(f"the context of the server is full: {refusal}")) from None
            if refusal.status in HOPELESS:
                raise UsageError(
                    self.hide(f"{self.config.address} stopped serving ({refusal}): repair it, then resume the run")
                ) from None
            raise EngineError(self.hide(f"{self.config.address} refuses the request ({refusal})")) from None

    async def chat_with_retries(self, request: ChatRequest) -> Reply:
        """Send a request until the server answers with a turn or no retry is left. Raises Refusal, EngineError."""
        num_tries = RETRIES + 1
        tries = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(num_tries),
            wait=self._find_wait,
            reraise=True,
        )
        try:
            return await tries(self._ask, request)
        except TransientError as fault:
            text = f"{self.config.address} gave no turn in {num_tries} tries: {fault}"
            raise EngineError(self.hide(text)) from None

    def _find_wait(self, state: RetryCallState) -> float:
        """Return the seconds to wait before a retry: randomly varied, and on average twice as long at each retry.

        If the server asks for a wait, return 0 and delay all requests by that wait instead.
        """
        asked_s = find_wait(state, -1.0)
        if asked_s >= 0:
            self._rate_limiter.delay(min(asked_s, MAX_WAIT_S))
            return 0.0
        wait_s = FIRST_WAIT_S * 2 ** (state.attempt_number - 1)
        return min(wait_s * random.uniform(0.5, 1.5), MAX_WAIT_S)

    async def _ask(self, request: ChatRequest) -> Reply:
        """Send one request and record its tokens and cost. Raises TransientError, Refusal, OutOfBudget."""
        await self._rate_limiter.wait()
        await self._check_budget()
        with self._under_way():
            answer = await self._send(request)
            usage = read_usage(answer, request)
            self.account.record_answer(stage_of(request), usage)
        try:
            return read_reply(answer, request, usage)
        except ValueError as error:
            raise TransientError(str(error)) from None

    async def _check_budget(self) -> None:
        """Raise OutOfBudget if the budget is spent; before that, wait until the costs of all running requests are recorded."""
        budget, spent = self.config.budget, self.account.total.cost
        if budget is not None and spent >= budget:
            await self._is_idle.wait()
            raise OutOfBudget(
                f"the endpoint has cost {self.account.total.cost:.4g} and engine.openai.budget is {budget:g}: "
                "to go on, resume the run with a larger --engine.openai.budget"
            )

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        self._num_under_way += 1
        self._is_idle.clear()
        try:
            yield
        finally:
            self._num_under_way -= 1
            if not self._num_under_way:
                self._is_idle.set()

    async def _send(self, request: ChatRequest) -> dict[str, Any]:
        """Send one request and return the server's answer as JSON. Raises TransientError, Refusal."""
        stage, create = stage_of(request), self.client.chat.completions.with_raw_response.create
        messages: list[Any] = [{"role": each.role, "content": encode(each.text).decode()} for each in request.messages]
        body = to_body(request, self.config)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                raw = await create(model=self.config.model, messages=messages, extra_body=body)
            return self.hide_all(to_object(raw.content.decode()))
        except APIStatusError as error:
            self.account.record_refusal(stage)
            raise classify_error(error) from None
        except (APIConnectionError, TimeoutError, ValueError) as error:
            self.account.record_loss(stage)
            raise TransientError(describe(error)) from None
        except asyncio.CancelledError:
            self.account.record_loss(stage)
            raise

    def status(self) -> str:
        """Return the cost so far, e.g. `cost 0.0312`; empty without prices."""
        return f"cost {self.account.total.cost:.4g}" if self.config.prices else ""

    def hide(self, text: str) -> str:
        """Remove the API key from a text of the server."""
        return text.replace(self._key, "…") if len(self._key) >= MIN_SECRET else text

    def hide_all(self, answer: Any) -> Any:
        """Remove the API key from all texts of a parsed answer."""
        match answer:
            case str():
                return self.hide(answer)
            case list():
                return [self.hide_all(each) for each in answer]
            case dict():
                return {name: self.hide_all(each) for name, each in answer.items()}
            case _:
                return answer

    async def close(self) -> None:
        await self.client.close()


def stage_of(request: ChatRequest) -> str:
    """Return the stage under which a request's cost is recorded: episode `eval-base/task-1/0` → `eval-base`."""
    return request.episode_id.partition("/")[0]


def to_body(request: ChatRequest, config: EndpointConfig) -> dict[str, Any]:
    """Build the JSON body of a request: standard parameters, and other parameters only if the configuration sets them."""
    params = {"temperature": request.params.temperature, "top_p": request.params.top_p}
    params |= request.params.model_dump(exclude_defaults=True)
    body = {config.max_tokens_key: request.max_new_tokens, "seed": request.seed, **params}
    return {key: value for key, value in body.items() if key not in config.leave_out} | config.extra_body


def to_object(text: str) -> dict[str, Any]:
    """Parse a text as a JSON object. Raises ValueError."""
    answer = parse_json(text)
    if not isinstance(answer, dict):
        raise ValueError("not a JSON object")
    return answer


def describe(error: Exception) -> str:
    """Describe the error of a failed request in a few words."""
    match error:
        case TimeoutError() | APITimeoutError():
            return "no answer in time"
        case APIConnectionError():
            return f"the connection failed ({error.__cause__ or error})"
        case _:
            return f"the answer cannot be read ({error})"


class RateLimiter:
    """Rate limiter, shared by all requests to one server."""

    def __init__(self, per_minute: float | None = None) -> None:
        self._interval_s = 60 / per_minute if per_minute else 0.0
        self._next_s = 0.0

    async def wait(self) -> None:
        """Wait until the rate limit allows the next request."""
        moment = max(time.monotonic(), self._next_s)
        self._next_s = moment + self._interval_s
        await asyncio.sleep(moment - time.monotonic())

    def delay(self, wait_s: float) -> None:
        """Delay all later requests by at least `wait_s` seconds."""
        self._next_s = max(self._next_s, time.monotonic() + wait_s)
