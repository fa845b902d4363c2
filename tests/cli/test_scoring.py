"""`tasks score` with a server on this machine that is busy at first; `tasks filter` reads the scores."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from support.data_sets.set_rows import make_rebench_row, write_rows
from turnsmith.curation.scoring import PLACEHOLDERS, PROMPT, read_scores_in
from turnsmith.engines.endpoint.ask import ChatEndpoint, read_answer
from turnsmith.errors import EngineError, UsageError
from turnsmith.io.files import read_prompt

GOOD = 'Let me see.\n{"difficulty_score": 1, "issue_text_score": 3, "test_score": 0}'


@pytest.fixture
def server(monkeypatch):
    """Run a server that gives a list of answers in order, then repeats the last; it records all requests."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.asked.append((self.path, dict(self.headers), json.loads(body)))
            answers = self.server.answers
            status, text = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps({"choices": [{"message": {"content": text}}]}).encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        httpd.asked, httpd.answers = [], [(200, GOOD)]
        httpd.url = f"http://127.0.0.1:{httpd.server_port}/v1"
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield httpd
        httpd.shutdown()
        thread.join()


def test_missing_scores_are_requested_once_and_filter_tasks(turnsmith, tmp_path, server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    rows = [make_rebench_row("scored"), make_rebench_row("new", scores=(-1, -1, -1)), make_rebench_row("bare", meta={})]
    file = write_rows(tmp_path / "in" / "tasks.jsonl", rows)
    server.answers = [(503, ""), (200, GOOD)]
    ask = ("tasks", "score", file, "--endpoint", server.url, "--model", "judge", "--workers", "1", "--json")
    result = turnsmith(*ask)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"asked": 2, "on_record": 0, "scored_by_the_set": 1, "without_an_answer": 0}
    path, headers, body = server.asked[0]
    assert path == "/v1/chat/completions" and headers["Authorization"] == "Bearer sesame" and len(server.asked) == 3
    assert body["model"] == "judge" and rows[1]["problem_statement"] in body["messages"][0]["content"]
    assert json.loads(turnsmith(*ask).stdout)["on_record"] == 2 and len(server.asked) == 3
    assert turnsmith("tasks", "filter", file, "--filter", "llm-score", "--out", tmp_path / "out").exit_code == 0
    dropped = [json.loads(line) for line in (tmp_path / "out/dropped.jsonl").read_text().splitlines()]
    assert [(row["instance_id"], row["reason"]) for row in dropped] == [
        ("new", "issue_text_score 3"),
        ("bare", "issue_text_score 3"),
    ]


def test_an_answer_without_scores_stays_unknown(turnsmith, tmp_path, server):
    server.answers = [(200, '{"difficulty_score": 7}')]
    file = write_rows(tmp_path / "tasks.jsonl", [make_rebench_row(meta={})])
    result = turnsmith("tasks", "score", file, "--endpoint", server.url, "--model", "judge")
    assert "1 without an answer" in result.stdout and len(server.asked) == 2
    funnel = turnsmith("tasks", "filter", file, "--filter", "llm-score", "--json", "--out", tmp_path / "out").stdout
    assert json.loads(funnel)["stages"][0]["unknown"] == 1


def test_a_refusing_or_silent_server_is_one_message(turnsmith, tmp_path, server, monkeypatch):
    server.answers = [(401, "")]
    file = write_rows(tmp_path / "tasks.jsonl", [make_rebench_row(meta={})])
    result = turnsmith("tasks", "score", file, "--endpoint", server.url, "--model", "judge")
    assert result.exit_code == 2 and "HTTP 401" in result.stderr and "key" in result.stderr
    server.answers = [(500, "")]
    monkeypatch.setattr("turnsmith.io.http.ATTEMPTS", 2)
    monkeypatch.setattr("turnsmith.io.http.FIRST_WAIT_S", 0)
    with pytest.raises(EngineError, match=r"2 tries.*HTTP 500"):
        ChatEndpoint(server.url, "judge").ask("?")
    result = turnsmith("tasks", "score", file, "--endpoint", "localhost", "--model", "judge")
    assert result.exit_code == 2 and "address" in result.stderr


@pytest.mark.parametrize("text", ["$nothing", "$patch alone", "$issue and $7", "$issue $other"])
def test_a_prompt_with_unknown_names_is_refused(tmp_path, text):
    (tmp_path / "p.txt").write_text(text)
    with pytest.raises(UsageError, match=r"p\.txt"):
        read_prompt(tmp_path / "p.txt", [*PLACEHOLDERS], "issue")
    assert read_prompt(PROMPT, [*PLACEHOLDERS]).get_identifiers() == ["issue", "patch", "tests"]


@pytest.mark.parametrize(
    "answer", ["", "{}", "{]}", '{"difficulty_score": true, "issue_text_score": 0, "test_score": 0}']
)
def test_answers_with_unusable_scores_are_ignored(answer):
    assert read_scores_in(answer) == {}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{"message": {"content": 3}}]}'])
def test_unusable_completions_are_errors(body):
    with pytest.raises(ValueError):
        read_answer(body)
