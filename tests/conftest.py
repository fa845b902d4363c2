"""Shared fixtures: a finished run folder, the command line, and a provider of real sandboxes."""

import os
import signal
import sys

import pytest
from hypothesis import settings
from typer.testing import CliRunner

import turnsmith.cluster
from support.ranks import RankPool
from turnsmith.cli import make_app
from turnsmith.config import RunConfig, SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder, claim, write_json
from turnsmith.runs.journal import append_trajectory
from turnsmith.sandboxes import make_provider
from turnsmith.types import Grade, Outcome, StopReason, Trajectory, Turn

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
"""Examples have no deadline, because their duration depends on the machine."""

HOSTILE = "\x1b[2J\x1b]0;owned\x07[bold red]not markup[/] :boom: \u202e end"


def make_trajectory(name: str, outcome: Outcome = Outcome.RESOLVED, observation: str = "ok") -> Trajectory:
    turns = [
        Turn(start=2, end=4, text="Look.\n```command\nls\n```", command="ls", observation=observation, exit_code=0),
        Turn(start=5, end=7, text="Done.\n```command\nsubmit\n```", command="submit", policy_version=3),
    ]
    return Trajectory(
        trajectory_id=name,
        group_id=name.rpartition("/")[0],
        index=int(name.rpartition("/")[2]),
        instance_id=name.split("/")[1],
        iteration=0,
        seed=0,
        token_ids=[1, 2, 3, 4, 5, 6, 7],
        sampled=[False, False, True, True, False, True, True],
        logprobs=[0.0, 0.0, -1.0, -0.5, 0.0, -0.25, -0.25],
        turns=turns,
        stop_reason=StopReason.SUBMITTED,
        outcome=outcome,
        patch="diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-1\n+2\n",
        grade=Grade(
            outcome=outcome, statuses={"tests/test_x.py::test_a": "passed", "tests/test_x.py::test_b": "failed"}
        ),
        isolation="namespaces-user",
        prompt_tokens=2,
        detail="1 of 2 expected tests do not pass",
    )


def make_config() -> RunConfig:
    practice = {"practice_tasks": 4}
    return RunConfig.model_validate(
        {
            "train_tasks": practice,
            "eval_tasks": {"practice": practice | {"split": "heldout"}, "package": {"package": "toolz==1.0.0"}},
            "rft": {},
            "stages": [{"name": "stage1", "iterations": 5}, {"name": "stage2", "iterations": 5}],
        }
    )


def make_result(stage: str, task_set: str, rate: float) -> dict:
    return {
        "stage": stage,
        "task_set": task_set,
        "pass_at_1": rate,
        "sem": 0.02,
        "pass_at_k": min(1.0, rate * 1.4),
        "k": 2,
        "num_tasks": 104,
        "num_runs": 2,
        "mean_turns": 5.2,
        "submit_rate": 0.9,
        "outcomes": {"resolved": 20, "unresolved": 184, "empty_patch": 4},
        "per_task": {},
        "num_lost": 0,
        "isolation": "local",
    }


def make_metrics(rate: float, position: int) -> dict:
    return {
        "rollouts/resolved_rate": rate,
        "rollouts/turns_mean": 7.0 - 0.3 * position,
        "rollouts/tokens_mean": 700.0,
        "rollouts/submit_rate": 0.5 + 0.04 * position,
        "rollouts/format_errors_mean": 0.4 / (position + 1),
        "groups/all": 24,
        "groups/with_signal": 15,
        "optimizer/steps": 4.0,
        "contact/flagged_rate": 0.02 * position,
        "loss/entropy": 0.8 - 0.05 * position,
        "logprob_gap/mean": 2e-7 * (1 + position % 3),
        "time/collect_s": 21.0,
        "time/train_s": 14.0,
    }


@pytest.fixture(scope="session")
def turnsmith():
    """Return a function that runs a command; its result has `exit_code`, `stdout` and `stderr`."""
    return lambda *arguments: CliRunner().invoke(make_app(), [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def ranks():
    """Return a function that runs another one on 1 to 8 gloo ranks: `ranks(num_ranks, function, *arguments)`.

    Each test file has processes of its own, because torch caches process groups of earlier calls by the shape of a mesh.
    """
    pool = RankPool()
    yield pool
    pool.close()


@pytest.fixture
async def provider():
    """Provide real sandboxes, or subprocesses if this machine forbids namespaces."""
    try:
        provider = make_provider(SandboxConfig())
    except UsageError:
        provider = make_provider(SandboxConfig(kind="subprocess"))
    yield provider
    await provider.close()


@pytest.fixture
def run_folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    claim(folder, make_config().model_dump(mode="json"))
    rates = {"base": 0.08, "rft": 0.31, "stage1": 0.52, "stage2": 0.58}
    for stage, rate in rates.items():
        write_json(folder.result(stage, "practice"), make_result(stage, "practice", rate))
        write_json(folder.result(stage, "package"), make_result(stage, "package", rate / 4))
        record = make_trajectory(f"eval-{stage}/practice-1.swap.1f3a9c04/0", observation=HOSTILE)
        append_trajectory(folder.eval_trajectories(stage, "practice"), record)
        append_trajectory(
            folder.eval_trajectories(stage, "practice"),
            make_trajectory(f"eval-{stage}/practice-1.swap.1f3a9c04/1", Outcome.UNRESOLVED),
        )
    write_json(
        folder.iteration("rft", 0).metrics, {"rollouts/resolved_rate": 0.09, "rollouts/kept": 45, "optimizer/steps": 3}
    )
    for position in range(10):
        metrics = make_metrics(0.3 + 0.025 * position, position)
        write_json(folder.iteration(f"stage{1 + position // 5}", position % 5).metrics, metrics)
    return folder


@pytest.fixture
def working_directory(tmp_path, monkeypatch):
    """Change to an empty folder; afterwards forget modules imported from it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def obeys_ctrl_c():
    """Let child processes react to Ctrl-C, even if the tests run under `nohup`, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def pytest_collection_modifyitems(items):
    """Mark tests that start many processes: they run one after another, by `make test-ranks`."""
    for item in items:
        if {"ranks", "local_ray"} & set(item.fixturenames):
            item.add_marker(pytest.mark.ranks)


@pytest.fixture(scope="module")
def local_ray(tmp_path_factory):
    """Connect to Ray at the address in TURNSMITH_RAY, or start a local one for all tests of a file."""
    from turnsmith.cluster.connection import connect, disconnect

    logs = tmp_path_factory.mktemp("ray")
    connect(os.environ.get("TURNSMITH_RAY", ""), logs)
    yield logs
    if shared := sys.modules.get("support.cluster.shared_ranks"):
        shared.end_shared_ranks()
    disconnect()
