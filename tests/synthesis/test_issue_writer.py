import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from turnsmith.engines.endpoint.ask import ChatEndpoint
from turnsmith.errors import EngineError, UsageError
from turnsmith.io.files import read_prompt
from turnsmith.synthesis.issues import PLACEHOLDERS, EndpointWriter
from turnsmith.types import Task

TASK = Task(
    instance_id="a", repo="toolz", base_commit="x", problem_statement="One test fails", FAIL_TO_PASS=["t.py::a"],
    PASS_TO_PASS=[], patch="-1\n+2\n", layers=["a"],
)  # fmt: skip
ISSUE = (200, {"choices": [{"message": {"content": "  It is wrong.\n"}}]})


@contextmanager
def serving(*answers):
    """Serve these answers in turn; yields the address and the received requests."""
    left, requests = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            requests.append((self.path, self.headers.get("Authorization"), json.loads(body) if body else None))
            status, data, *headers = left.pop(0)
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data if isinstance(data, bytes) else json.dumps(data).encode())

        do_POST = do_GET

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def prompt(tmp_path):
    (tmp_path / "prompt.txt").write_text("Of $repo:\n$patch$failures")
    return read_prompt(tmp_path / "prompt.txt", PLACEHOLDERS)


async def test_the_issue_is_the_answer_to_the_prompt(prompt):
    with serving(ISSUE) as (url, requests):
        writer = EndpointWriter(ChatEndpoint(url, "large", "secret"), prompt)
        assert await writer(TASK) == "It is wrong.\n"
    [(path, key, asked)] = requests
    assert (path, key, asked["model"]) == ("/v1/chat/completions", "Bearer secret", "large")
    assert asked["messages"] == [{"role": "user", "content": "Of toolz:\n-1\n+2\nOne test fails"}]


async def test_temporary_faults_are_retried(prompt, monkeypatch):
    monkeypatch.setattr("turnsmith.io.http.FIRST_WAIT_S", 0)
    with serving((503, b"busy"), (429, b""), (200, b"no json"), ISSUE) as (url, requests):
        assert await EndpointWriter(ChatEndpoint(url, "large"), prompt)(TASK) == "It is wrong.\n"
    assert len(requests) == 4


@pytest.mark.parametrize(
    ("answers", "error", "complaint"),
    [
        ([(503, b"")] * 3, EngineError, "no answer in 3 tries: HTTP 503"),
        ([(401, b"")], UsageError, "refuses the question"),
        ([(200, {"choices": [{"message": {"content": " "}}]})], UsageError, "issue"),
    ],
)
async def test_permanent_faults_raise_one_sentence(prompt, monkeypatch, answers, error, complaint):
    monkeypatch.setattr("turnsmith.io.http.ATTEMPTS", 3)
    monkeypatch.setattr("turnsmith.io.http.FIRST_WAIT_S", 0)
    with serving(*answers) as (url, _), pytest.raises(error, match=complaint):
        await EndpointWriter(ChatEndpoint(url, "large"), prompt)(TASK)


@pytest.mark.parametrize("text", ["$gold", "5 $", None])
def test_a_prompt_that_cannot_be_filled_in_is_named(tmp_path, text):
    if text:
        (tmp_path / "prompt.txt").write_text(text)
    with pytest.raises(UsageError, match=r"prompt\.txt .*\$patch, \$failures, \$repo"):
        read_prompt(tmp_path / "prompt.txt", PLACEHOLDERS)
