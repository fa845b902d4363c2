"""`turnsmith solve` on an ordinary checkout: the agent's view, the written patch, and the results of given tests."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from conftest import HOSTILE
from support.engines import scripted_agents
from support.machine.host_processes import processes_named, wait_until
from turnsmith.cli.solving import configure
from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import read_trajectories

ISSUE = "total([1, 2]) is 2, it must be 3"
FIX = "sed -i 's/ - 1//' calc.py"
BREAK = "sed -i 's/ - 1/ - 2/' calc.py"
PYTEST = "python -m pytest -q tests"
PASSES_BEFORE = "tests pass on the checkout"
SECRET = "tok-5f3a"
AGENT = "support.engines.scripted_agents:open_commanding_engine"


def git(checkout, *arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@a", "-C", str(checkout), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def checkout(tmp_path):
    """Return a committed module with a bug and tests."""
    folder = tmp_path / "calc"
    (folder / "tests").mkdir(parents=True)
    (folder / "calc.py").write_text("def total(values):\n    return sum(values) - 1\n")
    (folder / "tests" / "test_calc.py").write_text(
        "import calc\n\n\ndef test_total():\n    assert calc.total([1, 2]) == 3\n"
    )
    git(tmp_path, "init", "--quiet", "calc")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


@pytest.fixture
def solve(turnsmith, checkout, model_directory, tmp_path, monkeypatch):
    """Return a function that runs `solve` with scripted attempts, and returns the result of the command."""

    def run(attempts, *options, issue=ISSUE):
        monkeypatch.setattr(scripted_agents, "COMMANDS", attempts)
        policy = ["--model.path", model_directory, "--engine.kind", AGENT, "--agent.prompts", "brief"]
        where = ["--out", tmp_path / "run", "--no-environment"]
        return turnsmith("solve", checkout, "--issue", issue, *where, *policy, "--agent.max_context", 8192, *options)

    return run


def trajectories(tmp_path):
    return list(read_trajectories(RunFolder(tmp_path / "run").eval_trajectories("solve", "checkout")))


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_passing_patch_is_written_and_the_checkout_is_unchanged(solve, checkout, tmp_path, turnsmith):
    before = files_of(checkout)
    result = solve([[FIX]], "--tests", PYTEST)
    assert result.exit_code == 0, result.output
    assert "tests pass" in result.stdout and "exit code 0" in result.stdout and "1 passed" in result.stdout
    assert files_of(checkout) == before
    git(checkout, "apply", tmp_path / "run" / "solution.patch")
    assert "sum(values)\n" in (checkout / "calc.py").read_text()
    assert "attempt 1 · turn 1" in result.stderr and FIX in result.stderr
    shown = turnsmith("show", tmp_path / "run")
    assert shown.exit_code == 0 and "tests pass" in shown.stdout
    assert ISSUE in turnsmith("show", tmp_path / "run", "--trajectory", "solve/calc/0").stdout


def test_without_tests_nothing_is_verified_and_the_apply_command_is_printed(solve, checkout):
    result = solve([[FIX]])
    assert result.exit_code == 0, result.output
    assert re.search(r"submitted; .*verified", result.stdout)
    [command] = [line.removeprefix("apply").strip() for line in result.stdout.splitlines() if line.startswith("apply")]
    subprocess.run(command, shell=True, check=True, cwd="/")
    assert (checkout / "calc.py").read_text() == "def total(values):\n    return sum(values)\n"


def test_an_environment_needs_uv(turnsmith, checkout, model_directory, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "uv", None)
    result = turnsmith("solve", checkout, "--issue", ISSUE, "--out", tmp_path / "run", "--model.path", model_directory)
    assert result.exit_code == 2
    assert re.search(r"`pip install 'turnsmith\[mine\]'`.*--no-env", result.stderr)
    assert not (tmp_path / "run").exists()


def test_the_default_context_is_limited_to_the_positions_of_the_model(capsys):
    config = configure(None, ["--model.path", "tiny"])
    assert config.agent.max_context == 4096
    assert capsys.readouterr().err.count("agent.max_context is 4096") == 1
    with pytest.raises(UsageError, match=r"4096 positions .* --agent.max_context 4096 or less"):
        configure(None, ["--model.path", "tiny", "--agent.max_context", "4097"])


def test_a_server_without_credit_keeps_the_finished_turns(turnsmith, checkout, tmp_path):
    chat_server = pytest.importorskip("support.engines.chat_server", reason="turnsmith[endpoint] is not installed")
    script = chat_server.play([chat_server.say(FIX), chat_server.say("submit")])
    with chat_server.serving(script, faults=chat_server.in_turn(["", "", "402"])) as server:
        keys = {"kind": "openai", "openai.address": server.address, "openai.model": chat_server.MODEL}
        engine = [f"--engine.{name}={value}" for name, value in keys.items()]
        where = ["--out", tmp_path / "run", "--no-environment"]
        result = turnsmith("solve", checkout, "--issue", ISSUE, *where, *engine, "--agent.prompts", "brief")
    assert "command again" in result.stderr, result.output
    assert "+    return sum(values)\n" in (tmp_path / "run" / "solution.patch").read_text()
    assert result.exit_code == 0 and "not submitted (stopped: " in result.stdout


def test_an_attempt_reports_a_spent_budget(turnsmith, checkout, tmp_path):
    chat_server = pytest.importorskip("support.engines.chat_server", reason="turnsmith[endpoint] is not installed")
    with chat_server.serving(chat_server.play([chat_server.say(FIX)])) as server:
        keys = {"kind": "openai", "openai.address": server.address, "openai.model": chat_server.MODEL}
        prices = {"openai.prices.input": 1e6, "openai.prices.output": 1e6, "openai.budget": 60}
        engine = [f"--engine.{name}={value}" for name, value in (keys | prices).items()]
        where = ["--out", tmp_path / "run", "--no-environment"]
        result = turnsmith("solve", checkout, "--issue", ISSUE, *where, *engine, "--agent.prompts", "brief")
    assert result.exit_code == 0, result.output
    [attempt] = trajectories(tmp_path)
    assert (attempt.stop_reason, attempt.num_turns) == ("stopped", 1)
    assert attempt.detail.startswith("stopped: ") and attempt.detail.endswith("budget is 60")
    assert f"not submitted ({attempt.detail})" in result.stdout and "running" not in result.output


@pytest.mark.parametrize(
    ("commands", "piece"), [([BREAK], "no attempt passes the given tests"), ([], "no patch      nothing was changed")]
)
def test_a_failing_patch_has_exit_code_1(solve, commands, piece):
    result = solve([commands], "--tests", PYTEST)
    assert result.exit_code == 1 and piece in result.stdout, result.output


def test_the_passing_attempt_is_kept(solve, tmp_path):
    result = solve([[], [BREAK], [FIX]], "-n", 3, "--tests", PYTEST, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["kept"], told["verified"]) == ("solve/calc/2", True)
    assert "+    return sum(values)\n" in (tmp_path / "run" / "solution.patch").read_text()


def test_without_tests_the_smallest_submitted_patch_is_kept(solve):
    wordy = f"{FIX}; echo '# a remark' >> calc.py"
    result = solve([[wordy], [FIX], ["true > new.py", *["ls"] * 9]], "-n", 3, "--agent.max_turns", 3, "--json")
    told = json.loads(result.stdout)
    assert {each["trajectory_id"]: each["stop_reason"] for each in told["attempts"]}["solve/calc/2"] == "max_turns"
    assert told["kept"] == "solve/calc/1" and result.exit_code == 0


def test_uncommitted_changes_are_in_the_copy_and_not_in_the_patch(solve, checkout, tmp_path):
    (checkout / "calc.py").write_text("# mine\ndef total(values):\n    return sum(values) - 1\n")
    (checkout / "more.py").write_text("staged = 1\n")
    git(checkout, "add", "more.py")
    result = solve([["cat calc.py more.py && git status --short", FIX]], "--apply", "--tests", PYTEST)
    assert result.exit_code == 0, result.output
    [first, *_] = trajectories(tmp_path)[0].turns
    assert "# mine" in first.observation and "staged = 1" in first.observation and " M " not in first.observation
    assert "# mine" not in (tmp_path / "run" / "solution.patch").read_text().replace(" # mine", "")
    assert (checkout / "calc.py").read_text() == "# mine\ndef total(values):\n    return sum(values)\n"
    assert (
        git(checkout, "log", "--oneline").count("\n") == 1
        and git(checkout, "diff", "--cached", "--name-only") == "more.py\n"
    )


def test_untracked_files_are_not_copied(solve, checkout, tmp_path):
    """The agent sees no untracked files, no targets of links, and no settings of the repository."""
    (checkout / ".gitignore").write_text(".env\n")
    for name in (".env", "notes.txt"):
        (checkout / name).write_text(SECRET)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "hidden.py").write_text(SECRET)
    (checkout / "pkg").mkdir()
    (checkout / "pkg" / "hidden.py").write_text("fine = 1\n")
    git(checkout, "add", "pkg/hidden.py")
    (checkout / "pkg").rename(tmp_path / "before")
    (checkout / "pkg").symlink_to(tmp_path / "elsewhere")
    git(checkout, "config", "user.email", SECRET)
    result = solve([["ls -A; grep -r 'tok-[5]f3a' . ..; git config --list; env", FIX]])
    assert result.exit_code == 0, result.output
    [first, *_] = trajectories(tmp_path)[0].turns
    assert "calc.py" in first.observation and "notes.txt" not in first.observation and ".env" not in first.observation
    assert not [
        path for path in (tmp_path / "run").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]


def test_the_agent_has_no_network(solve, tmp_path):
    probe = "python -c \"import socket; socket.create_connection(('1.1.1.1', 53), 2)\""
    solve([[probe]])
    assert trajectories(tmp_path)[0].turns[0].exit_code != 0


def test_a_patch_is_not_applied_to_a_changed_checkout(solve, checkout, monkeypatch):
    from turnsmith.recipes.solve import solve as solving

    play = solving.make_attempts

    async def edit_meanwhile(*arguments):
        await play(*arguments)
        (checkout / "calc.py").write_text("def total(values):\n    return 0\n")

    monkeypatch.setattr(solving, "make_attempts", edit_meanwhile)
    result = solve([[FIX]], "--apply")
    assert result.exit_code == 2 and "calc.py of" in result.stderr and "changed" in result.stderr
    assert "return 0" in (checkout / "calc.py").read_text()


def test_a_new_file_does_not_replace_an_untracked_one(solve, checkout):
    (checkout / "notes.txt").write_text("mine")
    result = solve([["echo theirs > notes.txt"]], "--apply")
    assert result.exit_code == 2 and "notes.txt" in result.stderr
    assert (checkout / "notes.txt").read_text() == "mine"


def test_a_failing_patch_is_not_applied(solve, checkout):
    before = files_of(checkout)
    result = solve([[BREAK]], "--apply", "--tests", PYTEST)
    assert result.exit_code == 1 and "nothing was applied" in result.stderr
    assert files_of(checkout) == before


@pytest.mark.parametrize(
    "cheat",
    [
        "sed -i 's/== 3/== 2/' tests/test_calc.py",
        "printf 'def pytest_collection_modifyitems(items):\\n    items.clear()\\n' > conftest.py; " + BREAK,
        "printf 'import os\\nos._exit(0)\\n' > calc.py",
    ],
)
def test_a_patch_that_changes_tests_does_not_pass(solve, cheat):
    result = solve([[cheat]], "--tests", PYTEST)
    assert result.exit_code == 1 and "not passed" in result.stdout, result.output


def test_files_left_out_of_the_tests_are_named_and_stay_in_the_patch(solve, tmp_path):
    result = solve([[f"{FIX}; echo '# more' >> tests/test_calc.py"]], "--tests", PYTEST)
    assert result.exit_code == 0, result.output
    assert "test-surface: tests/test_calc.py" in result.stdout
    assert "# more" in (tmp_path / "run" / "solution.patch").read_text()


def test_another_command_than_pytest_is_judged_by_its_exit_code(solve):
    command = "python -c 'import calc; assert calc.total([1, 2]) == 3; print(\"fine\")'"
    result = solve([[FIX]], "--tests", command)
    assert result.exit_code == 0 and "exit code" in result.stdout and "fine" in result.stdout, result.output


def test_tests_that_pass_before_the_patch_are_reported(solve):
    result = solve([[FIX]], "--tests", "true")
    assert result.exit_code == 0 and PASSES_BEFORE in result.stderr


def test_turns_are_printed_without_control_sequences(solve):
    result = solve([[f"echo '{HOSTILE}'", FIX]])
    assert "\x1b[2J" not in result.output and "\x07" not in result.output and "\u202e" not in result.output
    assert "[bold red]not markup[/] :boom:" in result.stderr


def with_conflict(checkout):
    git(checkout, "checkout", "--quiet", "-b", "other")
    for branch, text in {"other": "x = 1\n", "-": "x = 2\n"}.items():
        git(checkout, "checkout", "--quiet", *([] if branch == "other" else [branch]))
        (checkout / "calc.py").write_text(text)
        git(checkout, "commit", "--quiet", "--all", "--message", text)
    subprocess.run(
        ["git", "-C", checkout, "-c", "user.name=a", "-c", "user.email=a@a", "merge", "other"], capture_output=True
    )


@pytest.mark.parametrize(
    ("options", "issue", "change", "piece"),
    [
        ([], "  \n", None, "--issue"),
        ([], "missing.md", None, "missing.md"),
        ([], ISSUE, with_conflict, "calc.py"),
        (["--tests", "no-such-program"], ISSUE, None, "no-such-program"),
        (["--python", "3.12"], ISSUE, None, "--no-environment"),
        (["--engine.kind", "no_such_package:engine"], ISSUE, None, "no module no_such_package"),
        (["--agent.max_turn", "3"], ISSUE, None, "did you mean 'max_turns'"),
    ],
)
def test_bad_input_is_a_usage_error(solve, checkout, options, issue, change, piece):
    if change:
        change(checkout)
    result = solve([[FIX]], *options, issue=issue)
    assert result.exit_code == 2 and piece in result.stderr, result.output


def test_a_folder_without_git_files_or_policy_is_refused(turnsmith, checkout, tmp_path):
    (tmp_path / "plain").mkdir()
    git(tmp_path, "init", "--quiet", "bare")
    model = ("--model.path", "tiny", "--out", tmp_path / "run")
    for path, options, piece in [
        (tmp_path / "plain", model, "git checkout"),
        (tmp_path / "bare", model, "tracks no file"),
        (tmp_path / "nowhere", model, "no folder"),
        (checkout, (), "--model.path"),
        (checkout, ("--model.path", "tiny", "--out", checkout / "runs"), "in the checkout"),
        (checkout, (*model, "--sandbox.kind", "subprocess"), "--no-environment"),
    ]:
        result = turnsmith("solve", path, "--issue", ISSUE, *options)
        assert result.exit_code == 2 and piece in result.stderr, result.output
    assert not (tmp_path / "run").exists()


def test_a_solved_issue_cannot_be_resumed(solve, turnsmith, tmp_path):
    solve([[FIX]])
    result = turnsmith("resume", tmp_path / "run")
    assert result.exit_code == 2 and "turnsmith solve" in result.stderr
    assert "another --out" in solve([[FIX]]).stderr


@pytest.mark.slow
@pytest.mark.usefixtures("obeys_ctrl_c")
def test_ctrl_c_keeps_the_patch_so_far(checkout, model_directory, tmp_path):
    sleep = f"sleep {6_000_000 + os.getpid()}"
    (tmp_path / "sleepy.py").write_text(
        f"from support.engines import scripted_agents\n\nscripted_agents.COMMANDS = [[{FIX!r}, {sleep!r}]]\n"
        "open_engine = scripted_agents.open_commanding_engine\n"
    )
    policy = ["--model.path", model_directory, "--engine.kind", "sleepy:open_engine", "--agent.prompts", "brief"]
    limits = ["--agent.max_context", "8192", "--agent.command_timeout_s", "300", "--no-environment", "--out", "run"]
    command = [sys.executable, "-m", "turnsmith", "solve", checkout, "--issue", ISSUE, *policy, *limits]
    told, places = tmp_path / "told.txt", os.pathsep.join(filter(None, sys.path))
    with told.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": places}, stdout=output, stderr=output
        )
    wait_until(lambda: processes_named(sleep) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, told.read_text()
    assert "kept" in told.read_text() and told.read_text().endswith("stopped\n")
    assert "Traceback" not in told.read_text()
    assert "not submitted (stopped: Ctrl-C)" in told.read_text() and "running" not in told.read_text()
    assert "+    return sum(values)\n" in (tmp_path / "run" / "solution.patch").read_text()
