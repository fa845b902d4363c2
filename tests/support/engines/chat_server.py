"""OpenAI-compatible test server on this machine: it answers from a script, records charges, and injects faults.

    with serving(say_submit) as server:
        config = {"kind": "openai", "openai": {"address": server.address, "model": MODEL}}

A script receives the messages of a request. It needs no state, because the assistant messages count the turns. A test selects
faults by the number of the request, starting at 0.
"""

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

MODEL = "small-talker"
KEY = "sk-test-4f1d9c7be2a80356"
Script = Callable[[list[dict]], str]
"""Function from the messages so far to the text of the turn."""
Faults = Callable[[int], str]
"""Function from the number of a request to the name of its fault, or to an empty string."""
LOST = ("cut", "hang", "broken-json", "html", "no-object")
"""Faults after which the server has worked but the client receives no usage."""


@dataclass
class Books:
    """Tokens and money that the server charged."""

    requests: int = 0
    answered: int = 0
    refused: int = 0
    unanswered: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass
class ChatServer:
    """State of the server, for inspection by tests."""

    script: Script
    faults: Faults = lambda number: ""
    key: str = ""
    """Required API key; empty accepts any key."""
    max_model_len: int | None = None
    """Context limit, shown in the list of models and enforced."""
    has_list: bool = True
    delay_s: float = 0.0
    books: Books = field(default_factory=Books)
    bodies: list[dict] = field(default_factory=list)
    """Bodies of all requests for a turn."""
    moments: list[float] = field(default_factory=list)
    """Times of these requests."""
    num_at_once: int = 0
    most_at_once: int = 0
    address: str = ""
    is_closing: bool = False

    def app(self) -> Starlette:
        routes = [Route("/v1/chat/completions", self.chat, methods=["POST"]), Route("/v1/models", self.models)]
        return Starlette(routes=routes)

    async def models(self, request: Request) -> Response:
        if not self.is_known(request):
            return wrong_key(request)
        if not self.has_list:
            return Response(status_code=404)
        context = {} if self.max_model_len is None else {"max_model_len": self.max_model_len}
        return JSONResponse({"object": "list", "data": [{"id": MODEL, "object": "model", **context}, {"id": "other"}]})

    async def chat(self, request: Request) -> Response:
        number = self.books.requests
        self.books.requests += 1
        self.moments.append(time.monotonic())
        self.num_at_once += 1
        self.most_at_once = max(self.most_at_once, self.num_at_once)
        try:
            body = await request.json()
            self.bodies.append(body)
            await asyncio.sleep(self.delay_s)
            return await self.answer(request, body, self.faults(number))
        finally:
            self.num_at_once -= 1

    async def answer(self, request: Request, body: dict, fault: str) -> Response:
        if refusal := self.refuse(request, body, fault):
            self.books.refused += 1
            return refusal
        messages = body["messages"]
        usage = count(messages, text := self.script(messages))
        if fault in LOST:
            self.books.unanswered += 1
            return await self.spoil(fault)
        self.books.answered += 1
        answer = {
            "id": "chat-1", "object": "chat.completion", "created": 0, "model": MODEL, "usage": usage,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        }  # fmt: skip
        distort(answer, fault)
        if fault == "echo":
            answer["choices"][0]["message"]["content"] += str(request.headers.get("authorization"))
        self.charge(answer.get("usage"))
        return JSONResponse(answer)

    async def spoil(self, fault: str) -> Response:
        """Return an answer that never arrives or cannot be read."""
        match fault:
            case "cut":
                return Half()
            case "hang":
                while not self.is_closing:
                    await asyncio.sleep(0.02)
            case "html":
                return Response("<h1>Bad gateway</h1>", media_type="text/html")
            case "no-object":
                return JSONResponse([])
        return Response('{"choices": [', media_type="application/json")

    def refuse(self, request: Request, body: dict, fault: str) -> Response | None:
        if not self.is_known(request):
            return wrong_key(request)
        if body["model"] != MODEL:
            return error(404, f"The model `{body['model']}` does not exist.", code="model_not_found")
        length = count(body["messages"], "")["prompt_tokens"]
        if self.max_model_len is not None and length + body.get("max_tokens", 0) > self.max_model_len:
            return error(400, f"This model's maximum context length is {self.max_model_len} tokens, not {length}.")
        status, _, after = fault.partition(" ")
        if status.isdigit():
            headers = {"retry-after": after} if after else {}
            return error(int(status), f"fault {status}, asked for with {request.headers.get('authorization')}", headers)
        return None

    def is_known(self, request: Request) -> bool:
        return not self.key or request.headers.get("authorization") == f"Bearer {self.key}"

    def charge(self, usage: object) -> None:
        """Record the charge of an answer."""
        if isinstance(usage, dict):
            self.books.input_tokens += usage["prompt_tokens"]
            self.books.output_tokens += usage["completion_tokens"]
            self.books.cached_tokens += usage["prompt_tokens_details"]["cached_tokens"]


def distort(answer: dict, fault: str) -> None:
    """Change an answer so that it is invalid or wrong."""
    choice = answer["choices"][0]
    match fault:
        case "no-choices":
            answer["choices"] = []
        case "no-fields":
            del answer["choices"], answer["object"]
        case "empty":
            choice["message"]["content"] = ""
        case "null":
            choice["message"]["content"] = None
        case "refusal":
            choice["message"] |= {"content": None, "refusal": "I would rather not."}
        case "filtered":
            choice["finish_reason"] = "content_filter"
        case "length":
            choice |= {"finish_reason": "length"}
            choice["message"]["content"] = choice["message"]["content"][:10]
        case "no-usage":
            del answer["usage"]
        case "wild-usage":
            answer["usage"] |= {"prompt_tokens": 10**9, "completion_tokens": 10**8}
        case "wrong-usage":
            answer["usage"] = "free"


class Half(Response):
    """Response that announces more bytes than it sends, then closes the connection."""

    async def __call__(self, scope: object, receive: object, send: Callable) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"1000")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"choices": [', "more_body": True})


def error(status: int, message: str, headers: dict | None = None, code: str | None = None) -> Response:
    body = {"error": {"message": message, "type": "error", "param": None, "code": code}}
    return JSONResponse(body, status, headers or {})


def wrong_key(request: Request) -> Response:
    """Return an error that repeats the key, as some servers do."""
    return error(401, f"Incorrect API key provided: {request.headers.get('authorization')}.", code="invalid_api_key")


def count(messages: list[dict], text: str) -> dict:
    """Count words and signs; all messages before the last two count as cached."""
    lengths = [4 + len(message["content"]) // 3 for message in messages]
    cached = sum(lengths[:-2])
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": sum(lengths), "completion_tokens": 1 + len(text) // 3, **details}


@contextmanager
def serving(script: Script, **options: object) -> Iterator[ChatServer]:
    """Run the server in a thread until the block ends."""
    chat = ChatServer(script, **options)
    config = uvicorn.Config(
        chat.app(), port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1, timeout_keep_alive=600
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    chat.address = f"http://127.0.0.1:{port}/v1"
    try:
        yield chat
    finally:
        chat.is_closing = True
        server.should_exit = server.force_exit = True
        thread.join()


def in_turn(faults: Iterable[str]) -> Faults:
    """Return these faults in order, and none afterwards."""
    planned = list(faults)
    return lambda number: planned[number] if number < len(planned) else ""


def play(texts: list[str]) -> Script:
    """Return a script with the same texts in every episode, one per turn."""
    return lambda messages: texts[count_turns(messages)]


def apply_gold(task: object) -> str:
    """Return the command that writes the gold patch of a task."""
    return f"echo {base64.b64encode(task.patch.encode()).decode()} | base64 -d | git apply -"


def solve(tasks: Iterable[object], act: Callable[[object], str] = apply_gold) -> Script:
    """Return a script that acts on the task with the given issue, then submits; `tasks` may grow while the server runs."""

    def answer(messages: list[dict]) -> str:
        issue = messages[1]["content"]
        found = [task for task in tasks if task.problem_statement.strip() in issue]
        if not found:
            return say("submit")
        return say("submit" if count_turns(messages) else act(found[0]))

    return answer


def count_turns(messages: list[dict]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def say(command: str) -> str:
    return f"Next.\n```command\n{command}\n```"
