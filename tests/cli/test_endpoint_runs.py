"""Runs with a model behind an API: correct results despite faults, exact costs, and no key in any file."""

import asyncio
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict

import pytest

pytest.importorskip("openai", reason="turnsmith[endpoint] is not installed")
pytest.importorskip("uvicorn", reason="turnsmith[dev] is not installed")

from support.engines.chat_server import KEY, MODEL, apply_gold, serving, solve
from turnsmith.config import SandboxConfig
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.runs.journal import read_trajectories
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks
from turnsmith.tasks.dataset import load_tasks
from turnsmith.types import Outcome

FAULTS = [
    "429", "429 0.01", "500", "503", "cut", "broken-json", "html", "no-object", "no-choices", "no-fields", "empty",
    "refusal", "filtered",
]  # fmt: skip


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("TALKER_KEY", KEY)
    return KEY


@pytest.fixture
def serve(heldout_folder):
    """Start a server that knows the gold patches of a folder's tasks."""
    return lambda folder=heldout_folder, **options: serving(solve(load_tasks(folder)), key=KEY, **options)


def configure(place, server, tasks, **more):
    """Write a configuration file for the server, without changes to [model]."""
    keys = {
        "engine.kind": "openai", "engine.openai.address": server.address, "engine.openai.model": MODEL,
        "engine.openai.key_variable": "TALKER_KEY",
        "eval_tasks.practice.path": str(tasks), "agent.prompts": "brief", "agent.max_context": 8192,
        "agent.max_new_tokens": 4096, "agent.max_turns": 3, "rollouts.concurrency": 4, "eval.num_runs": 1, "eval.k": 1,
    } | {name.replace("__", "."): value for name, value in more.items()}  # fmt: skip
    file = place / "endpoint.toml"
    file.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in keys.items()))
    return file


def files_with(folder, text):
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def assert_same_books(folder, server):
    total = read_json(folder.costs)["total"]
    assert {name: total[name] for name in asdict(server.books)} == asdict(server.books)
    books = server.books
    assert total["cost"] == pytest.approx((2.0 * books.input_tokens + 8.0 * books.output_tokens) / 1e6, rel=1e-9)


PRICES = {"engine__openai__prices__input": 2.0, "engine__openai__prices__output": 8.0}


def add_a_comment(task):
    """Return the command for a patch that repairs nothing."""
    return f"echo '# seen' >> {re.search(r'^[+]{3} b/(.*)$', task.patch, re.MULTILINE)[1]}"


ACTS = {
    Outcome.RESOLVED: apply_gold,
    Outcome.UNRESOLVED: add_a_comment,
    Outcome.EMPTY_PATCH: lambda task: "echo nothing to do",
}


def plan_outcomes(tasks, rng):
    """Return the planned outcome of each task by id: 31 of 50 are resolved."""
    endings = [Outcome.RESOLVED] * 31 + [Outcome.UNRESOLVED] * 10 + [Outcome.EMPTY_PATCH] * 9
    rng.shuffle(endings)
    return {task.instance_id: ending for task, ending in zip(tasks, endings, strict=True)}


def look_around_and_solve(tasks, outcomes):
    """Return commands that show the environment of a command, then end each task as planned."""
    return solve(tasks, lambda task: f"env; cat /proc/*/environ; {ACTS[outcomes[task.instance_id]](task)}")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_tasks_against_a_flaky_server(turnsmith, tmp_path, key, monkeypatch):
    """Results are complete and correct, costs equal the server's, the budget stops the run, and no file contains the key."""
    spec, tasks = PracticeSpec("heldout", 50, 0.0, seed=8), tmp_path / "tasks"
    monkeypatch.setattr("turnsmith.engines.endpoint.engine.RETRIES", 20)

    async def make():
        provider = make_provider(SandboxConfig())
        try:
            await make_practice_tasks(spec, tasks, provider)
        finally:
            await provider.close()

    asyncio.run(make())
    rng, folder = random.Random(8), RunFolder(tmp_path / "run")
    planned = [rng.choice(FAULTS) if rng.random() < 0.3 else "" for _ in range(5_000)]
    outcomes = plan_outcomes(load_tasks(tasks), rng)
    script = look_around_and_solve(load_tasks(tasks), outcomes)
    with serving(script, key=KEY, faults=lambda number: planned[number]) as server:
        budget = {"engine__openai__budget": 0.15}
        file = configure(tmp_path, server, tasks, rollouts__concurrency=8, **PRICES, **budget)
        stopped = turnsmith("eval", file, "--out", folder.path)
        assert stopped.exit_code == 1, stopped.output
        assert re.search(r"engine\.openai\.budget is 0\.15.* resume", stopped.stderr)
        num_done = len(list(read_trajectories(folder.eval_trajectories("base", "practice"))))
        assert 0 < num_done < 50
        assert_same_books(folder, server)
        ended = turnsmith("resume", folder.path, "--engine.openai.budget", "100")
        assert ended.exit_code == 0, ended.output
        assert_same_books(folder, server)
    result = read_json(folder.result("base", "practice"))
    played = read_trajectories(folder.eval_trajectories("base", "practice"))
    assert sorted((each.instance_id, each.outcome) for each in played) == sorted(outcomes.items())
    assert result["per_task"] == {name: float(ending is Outcome.RESOLVED) for name, ending in outcomes.items()}
    assert (result["pass_at_1"], result["num_attempts"], result["num_lost"]) == (31 / 50, 50, 0)
    assert server.books.unanswered > 0 and server.books.refused > 0
    assert files_with(folder.path, KEY) == []
    assert KEY not in stopped.output + ended.output
    shown = turnsmith("results", folder.path).stdout
    assert "eval-base" in shown and f"{read_json(folder.costs)['total']['cost']:.4g}" in shown


@pytest.mark.slow
def test_a_finished_evaluation_sends_no_request(turnsmith, serve, heldout_folder, tmp_path, key):
    with serve() as server:
        first = turnsmith("eval", configure(tmp_path, server, heldout_folder, **PRICES), "--out", tmp_path / "run")
    costs = read_json(RunFolder(tmp_path / "run").costs)
    spent = turnsmith("resume", tmp_path / "run", "--engine.openai.budget", costs["total"]["cost"] / 2)
    assert (first.exit_code, spent.exit_code) == (0, 0), spent.output
    assert spent.stdout == first.stdout and "100.0" in spent.stdout
    assert read_json(RunFolder(tmp_path / "run").costs) == costs


@pytest.mark.slow
def test_a_run_of_messages_is_shown_and_imitated_by_another_model(
    turnsmith, serve, config_file, task_folder, heldout_folder, tmp_path, key
):
    teacher = tmp_path / "teacher"
    with serve(task_folder) as server:
        result = turnsmith("eval", configure(tmp_path, server, task_folder, **PRICES), "--out", teacher)
        assert result.exit_code == 0, result.output
    assert "cost " in result.stderr
    [first, _] = read_trajectories(RunFolder(teacher).eval_trajectories("base", "practice"))
    assert (first.form, len(first.token_ids), [turn.command for turn in first.turns][-1]) == ("messages", 0, "submit")
    assert [message.role for message in first.prompt] == ["system", "user"]
    assert first.num_tokens == first.turns[-1].end > first.turns[0].end > first.prompt_tokens > 0
    shown = turnsmith("show", teacher, "--trajectory", first.trajectory_id)
    assert "endpoint" in " ".join(shown.stdout.split()), shown.output
    learned = turnsmith("rft", config_file, "--rft.conversations", teacher, "--out", tmp_path / "pupil")
    assert learned.exit_code == 0, learned.output
    told = read_json(RunFolder(tmp_path / "pupil").iteration("rft", 0).metrics)
    assert (told["conversations/kept"], told["conversations/retokenised"]) == (2, 2)
    assert f"{MODEL} at {server.address}" in RunFolder(tmp_path / "pupil").log.read_text()


@pytest.mark.slow
def test_a_run_of_an_endpoint_needs_no_training_package(serve, heldout_folder, tmp_path, key):
    hidden = tmp_path / "hidden"
    for name in ("torch", "transformers", "tokenizers", "matplotlib"):
        (hidden / name).mkdir(parents=True)
        (hidden / name / "__init__.py").write_text("raise ModuleNotFoundError('there is none here')")
    with serve() as server:
        file = configure(tmp_path, server, heldout_folder)
        command = [sys.executable, "-m", "turnsmith", "eval", file, "--out", tmp_path / "run"]
        environment = {**os.environ, "PYTHONPATH": str(hidden)}
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "100.0" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "renamed-"])
def test_conversations_about_evaluated_tasks_are_refused(
    turnsmith, serve, config_file, heldout_folder, tmp_path, key, name
):
    teacher, tasks = tmp_path / "teacher", tmp_path / "tasks"
    shutil.copytree(heldout_folder, tasks)
    renamed = [task.model_copy(update={"instance_id": f"{name}{task.instance_id}"}) for task in load_tasks(tasks)]
    (tasks / "tasks.jsonl").write_text("".join(f"{task.model_dump_json()}\n" for task in renamed))
    with serve(tasks) as server:
        result = turnsmith("eval", configure(tmp_path, server, tasks), "--out", teacher)
        assert result.exit_code == 0, result.output
    refused = turnsmith("rft", config_file, "--rft.conversations", teacher, "--out", tmp_path / "pupil")
    assert refused.exit_code == 2 and re.search(r"\b2 tasks", refused.stderr), refused.output


def test_a_failing_server_loses_rollouts_and_no_message_shows_the_key(
    turnsmith, serve, heldout_folder, tmp_path, key, monkeypatch
):
    monkeypatch.setattr("turnsmith.engines.endpoint.engine.RETRIES", 0)
    monkeypatch.setattr("turnsmith.rollouts.generator.RETRIES", 0)
    with serve(faults=lambda number: "500" if number else "") as server:
        file = configure(tmp_path, server, heldout_folder)
        result = turnsmith("eval", file, "--out", tmp_path / "run")
    assert result.exit_code == 1
    assert "2 of 2 rollouts" in result.stderr and "HTTP 500" in result.stderr
    assert files_with(tmp_path / "run", KEY) == [] and KEY not in result.output


def refused(turnsmith, tmp_path, server, tasks, **more):
    """Return the error of a run that did not start and left no folder."""
    result = turnsmith("eval", configure(tmp_path, server, tasks, **more), "--out", tmp_path / "run")
    assert result.exit_code == 2, result.output
    assert KEY not in result.output and not (tmp_path / "run").exists()
    [sentence] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    return sentence


@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        ({"engine__openai__model": "no-such-model"}, {}, "no-such-model"),
        ({"engine__openai__model": "no-such-model"}, {"has_list": False}, "/v1"),
        (
            {"engine__openai__key_variable": "OTHER_KEY"},
            {},
            "OTHER_KEY",
        ),
        ({"engine__openai__key_variable": ""}, {"has_list": False}, "without a key"),
        ({"engine__openai__key_variable": "BROKEN_KEY"}, {}, "BROKEN_KEY"),
        ({"engine__openai__key_variable": "NO_KEY"}, {}, "NO_KEY (engine.openai.key_variable)"),
        ({"agent__max_context": 8192}, {"max_model_len": 6000}, "--agent.max_context 6000"),
        ({"engine__openai__budget": 1.0}, {}, "budget"),
        ({"engine__openai__address": "http://me:secret@host/v1"}, {}, "engine.openai.address"),
    ],
)
def test_unusable_settings_are_refused_before_any_episode(
    turnsmith, serve, heldout_folder, tmp_path, key, monkeypatch, more, options, said
):
    monkeypatch.setenv("OTHER_KEY", "sk-wrong")
    monkeypatch.setenv("BROKEN_KEY", f"{KEY}\n{KEY}")
    with serve(**options) as server:
        assert said in refused(turnsmith, tmp_path, server, heldout_folder, **more)


def test_a_missing_server_is_a_usage_error(turnsmith, serve, heldout_folder, tmp_path, key):
    with socket.socket() as taken, serve() as server:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        assert address in refused(turnsmith, tmp_path, server, heldout_folder, engine__openai__address=address)


@pytest.mark.parametrize("command", ["rft", "rl"])
def test_training_on_an_endpoint_is_refused(turnsmith, config_file, tmp_path, command):
    given = [
        "--engine.kind",
        "openai",
        "--engine.openai.address",
        "http://localhost:1/v1",
        "--engine.openai.model",
        "m",
    ]
    result = turnsmith(command, config_file, *given, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert "token ids" in result.stderr and "engine.vllm.address" in result.stderr


def test_training_a_chat_engine_by_import_path_is_refused(turnsmith, config_file, serve, tmp_path, key):
    kind = "turnsmith.recipes.policy.endpoint:open_endpoint"
    result = turnsmith("rl", config_file, "--engine.kind", kind, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert kind in result.stderr and "turnsmith eval" in result.stderr


CHAT_ENGINE = """
from turnsmith.recipes.policy.base import chat_engine
from turnsmith.recipes.policy.endpoint import open_endpoint

async def open_unmarked(setup):
    return await open_endpoint(setup)

@chat_engine(name_model=lambda config: "my-model")
async def open_marked(setup):
    return await open_endpoint(setup)

@chat_engine(name_model=lambda config: "my-model")
class Marked:
    def __init__(self, setup):
        self.setup = setup

    def __await__(self):
        return open_endpoint(self.setup).__await__()
"""


@pytest.mark.parametrize("marked", ["open_marked", "Marked"])
def test_a_chat_engine_by_import_path_is_evaluated_and_names_its_model(
    turnsmith, serve, heldout_folder, working_directory, key, marked
):
    (working_directory / "my_chat.py").write_text(CHAT_ENGINE)
    with serve() as server:
        file = configure(
            working_directory, server, heldout_folder, engine__kind=f"my_chat:{marked}", model__path="none"
        )
        result = turnsmith("eval", file, "--limit", "1", "--out", "run", "--predictions", "preds.jsonl")
        unmarked = turnsmith(
            "eval", file, "--engine.kind", "my_chat:open_unmarked", "--model.path", "tiny", "--out", "other"
        )
    assert result.exit_code == 0, result.output
    assert json.loads((working_directory / "preds.jsonl").read_text())["model_name_or_path"] == "my-model"
    assert unmarked.exit_code == 2 and "@turnsmith.recipes.policy.base.chat_engine" in unmarked.stderr


def test_an_endpoint_without_an_address_is_refused(turnsmith, config_file, tmp_path):
    result = turnsmith(
        "eval", config_file, "--engine.kind", "openai", "--rft", "null", "--stages", "[]", "--out", tmp_path / "run"
    )
    assert result.exit_code == 2 and "engine.openai.address" in result.stderr
