"""`turnsmith solve` on real packages with inserted bugs: the gold commands leave a passing patch."""

import json
import shutil
import subprocess

import pytest

from support.engines import chat_server
from support.repositories.git_trees import rebuild
from turnsmith.tasks.dataset import layer_paths, load_tasks

pytestmark = pytest.mark.slow

PACKAGES = ("cachetools==5.5.0", "parse==1.20.2", "semver==3.0.2")


@pytest.fixture(scope="module", params=PACKAGES)
def planted(request, turnsmith, tmp_path_factory):
    """Return a checkout with a bug and its task."""
    out = tmp_path_factory.mktemp("package") / "tasks"
    made = turnsmith("tasks", "make", "--package", request.param, "--num", 1, "--out", out)
    assert made.exit_code == 0, made.output
    [task] = load_tasks(out)
    checkout = out.with_name("checkout")
    rebuild(layer_paths(task, out / "tasks.jsonl"), "", checkout)
    commit_anew(checkout)
    return checkout, task


def commit_anew(checkout):
    """Replace the task's history by an ordinary one."""
    shutil.rmtree(checkout / ".git")
    for arguments in (
        ["init", "--quiet"],
        ["add", "--all"],
        ["commit", "--quiet", "--allow-empty", "--message", "first"],
    ):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@a", "-C", str(checkout), *arguments]
        subprocess.run(command, check=True)


@pytest.fixture
def solve(turnsmith, planted, tmp_path):
    """Return a function that runs `solve` with the endpoint, and returns the result of the command."""
    checkout, task = planted
    issue = ["--issue", task.problem_statement, "--out", tmp_path / "run", "--json"]
    with chat_server.serving(chat_server.solve([task])) as server:
        engine = ["kind=openai", f"openai.address={server.address}", f"openai.model={chat_server.MODEL}"]
        policy = [f"--engine.{setting}" for setting in engine]
        yield lambda *options: turnsmith("solve", checkout, *issue, *policy, *options)


def test_a_planted_bug_is_repaired_with_tests(solve, planted):
    _, task = planted
    tests = " ".join(sorted({test.partition("::")[0] for test in task.FAIL_TO_PASS}))
    result = solve("--tests", f"python -m pytest -q {tests}", "-n", 2)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["verified"] and told["patch"] and "tests pass on the checkout" not in result.stderr


def test_a_planted_bug_is_repaired_without_tests(solve):
    result = solve("--no-environment")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["kept"] and "verified" in told["why"] and told["attempts"][0]["stop_reason"] == "submitted"
